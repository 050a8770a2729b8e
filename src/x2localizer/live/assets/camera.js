// Sends the camera of this browser to the service: JPEG frames over its WebSocket, fixes back on the same socket.
"use strict";

const FRAMES_PER_S = 6;       // odometry between frames needs 4 or more a second
const WIDTH = 640;            // pixels; larger frames say no more
const MOST_WAITING = 400000;  // bytes in the socket's queue beyond which frames are left out
const SOCKET_PATH = (id) => `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/v1/sessions/${id}/socket`;

class CameraPage {
  constructor() {
    this.video = document.querySelector("video");
    this.button = document.querySelector("button");
    this.canvas = document.createElement("canvas");
    this.counts = { sent: 0, left: 0, dropped: 0 };
    this.button.addEventListener("click", () => (this.session ? this.stop() : this.start()));
    window.addEventListener("pagehide", () => this.session && this.end(true));
  }

  async start() {
    this.button.disabled = true;
    this.problem("");
    try {
      await this.openCamera();
      this.session = await this.create();
      this.began = performance.now();
      this.connect();
      this.timer = setInterval(() => this.send(), 1000 / FRAMES_PER_S);
      this.button.textContent = "Stop";
      this.button.classList.add("stop");
      this.status("Starting", "");
      this.stayAwake();
    } catch (problem) {
      this.problem(words(problem));
      this.closeCamera();
    }
    this.button.disabled = false;
  }

  async stop() {
    await this.end(false);
    this.status("Stopped. The track stays on the map.", "");
  }

  async end(leaving) {
    const id = this.session.id;
    clearInterval(this.timer);
    this.session = null;
    if (this.socket) this.socket.close(1000);
    this.closeCamera();
    this.button.textContent = "Start";
    this.button.classList.remove("stop");
    const sent = fetch(`/v1/sessions/${id}/end`, { method: "POST", keepalive: true });
    if (!leaving) await sent.catch(() => {});
  }

  // The camera --------------------------------------------------------------------------------------------------------

  async openCamera() {
    if (!navigator.mediaDevices) {
      throw new Error("This browser gives its camera only to pages of its own machine, or over HTTPS. Put a proxy with TLS before the service.");
    }
    const lens = document.querySelector("#lens"), size = { width: { ideal: WIDTH }, frameRate: { ideal: 30 } };
    const which = lens.value ? { deviceId: { exact: lens.value } } : { facingMode: { ideal: "environment" } };
    this.stream = await navigator.mediaDevices.getUserMedia({ video: { ...size, ...which }, audio: false });
    this.video.srcObject = this.stream;
    await this.video.play();
    for (const track of this.stream.getVideoTracks()) {
      track.addEventListener("ended", () => { if (this.session) { this.stop(); this.problem("The camera was switched off."); } });
    }
    const devices = (await navigator.mediaDevices.enumerateDevices()).filter((device) => device.kind === "videoinput");
    if (lens.options.length === 1) devices.forEach((device, k) => lens.add(new Option(device.label || `camera ${k + 1}`, device.deviceId)));
  }

  closeCamera() {
    for (const track of this.stream ? this.stream.getTracks() : []) track.stop();
    this.video.srcObject = null;
  }

  // A phone that locks its screen stops its camera.
  async stayAwake() {
    try {
      if (navigator.wakeLock) this.awake = await navigator.wakeLock.request("screen");
    } catch {
      // refused when the battery is low: the page works without
    }
  }

  // The service -------------------------------------------------------------------------------------------------------

  async create() {
    const name = document.querySelector("#name").value.trim() || "browser", fov = Number(document.querySelector("#fov").value);
    const body = JSON.stringify({ name, camera: { fov_deg: fov }, odometry: "frames" });
    const answer = await fetch("/v1/sessions", { method: "POST", headers: { "content-type": "application/json" }, body });
    const values = await answer.json();
    if (!answer.ok) throw new Error(values.error ? `${values.error} ${values.remedy}` : "The service refused the camera.");
    return values;
  }

  connect() {
    const session = this.session;
    this.socket = new WebSocket(SOCKET_PATH(session.id), ["x2l.v1"]);
    this.socket.addEventListener("message", (event) => this.take(JSON.parse(event.data)));
    this.socket.addEventListener("close", () => {
      if (this.session !== session) return;
      this.status("Connecting again", "");
      setTimeout(() => { if (this.session === session) this.connect(); }, 1500);
    });
  }

  send() {
    const { videoWidth: width, videoHeight: height } = this.video, time = (performance.now() - this.began) / 1000;
    if (!width || this.packing || this.socket.readyState !== WebSocket.OPEN) return;
    if (this.socket.bufferedAmount > MOST_WAITING) { this.counts.left++; return; }
    const shrink = Math.min(1, WIDTH / width);
    this.canvas.width = Math.round(width * shrink);
    this.canvas.height = Math.round(height * shrink);
    this.canvas.getContext("2d").drawImage(this.video, 0, 0, this.canvas.width, this.canvas.height);
    this.packing = true;
    this.canvas.toBlob(async (jpeg) => {
      const message = jpeg && packed({ time_s: Number(time.toFixed(3)) }, await jpeg.arrayBuffer());
      this.packing = false;
      if (!message || !this.session || this.socket.readyState !== WebSocket.OPEN) return;
      this.socket.send(message);
      this.counts.sent++;
    }, "image/jpeg", 0.75);
  }

  take(message) {
    if (message.type === "error") this.problem(`${message.error} ${message.remedy}`);
    if (message.type === "end" && this.session) this.stop();
    if (message.type === "answer") this.counts.dropped = message.dropped;
    if (message.type === "answer" && message.note) this.problem(message.note);
    const fix = message.type === "answer" ? message.fix : message.type === "fix" ? message : null;
    if (fix) this.show(fix);
  }

  // What people see ---------------------------------------------------------------------------------------------------

  show(fix) {
    const off = fix.on_map !== null && fix.on_map < 0.5 && fix.status !== "tracking";
    const kinds = { tracking: ["Sure of the position", "t"], locating: ["Locating: not sure yet", "l"], lost: ["Lost: only a guess", ""] };
    this.status(...(off ? ["Not on this map", "off"] : kinds[fix.status]));
    if (fix.status !== "lost" || fix.lat_deg !== null) this.problem("");
    const rows = [["confidence", `${Math.round(100 * fix.confidence)}%`]];
    if (fix.lat_deg !== null) rows.push([fix.status === "tracking" ? "position" : "best guess", `${fix.lat_deg.toFixed(6)}, ${fix.lon_deg.toFixed(6)}`]);
    if (fix.ellipse_major_m !== null) rows.push(["95% within", `${fix.ellipse_major_m.toFixed(0)} × ${fix.ellipse_minor_m.toFixed(0)} m`]);
    rows.push(["frames sent", String(this.counts.sent)]);
    if (this.counts.left + this.counts.dropped) rows.push(["frames dropped", `${this.counts.left} here, ${this.counts.dropped} by the service`]);
    document.querySelector("dl").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
  }

  status(text, kind) {
    const line = document.querySelector(".status");
    line.textContent = text;
    line.className = `status ${kind}`;
  }

  problem(text) {
    document.querySelector(".problem").textContent = text;
  }
}

// Four bytes with the length of the header, the header as JSON, the JPEG.
function packed(header, jpeg) {
  const text = new TextEncoder().encode(JSON.stringify(header)), message = new Uint8Array(4 + text.length + jpeg.byteLength);
  new DataView(message.buffer).setUint32(0, text.length);
  message.set(text, 4);
  message.set(new Uint8Array(jpeg), 4 + text.length);
  return message;
}

function words(problem) {
  if (problem.name === "NotAllowedError") return "The browser may not use the camera. Allow it in the settings of this page.";
  if (problem.name === "NotFoundError") return "This device has no camera.";
  if (problem.name === "NotReadableError") return "The camera is in use by another program.";
  return problem.message;
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

window.cameraPage = new CameraPage();
