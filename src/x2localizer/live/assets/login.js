// Shows the token to the service once; from then on the browser has a cookie.
"use strict";

document.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = JSON.stringify({ token: document.querySelector("#token").value });
  const answer = await fetch("/v1/login", { method: "POST", headers: { "content-type": "application/json" }, body });
  if (answer.ok) {
    const wanted = location.search.slice(1);
    location.assign(["/", "/camera"].includes(wanted) ? wanted : "/");
  } else {
    const problem = await answer.json().catch(() => ({}));
    document.querySelector(".problem").textContent = `${problem.error || "The service did not answer."} ${problem.remedy || ""}`;
  }
});
