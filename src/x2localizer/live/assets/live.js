// The live map: cameras, trails, belief and frames on a Leaflet map that NiceGUI has made. The server sends what is new
// (LiveMap.update); what people do goes back as events (emitEvent). A fix is a row of values; see fix_row in state.py.
"use strict";

const TIME = 0, LAT = 1, LON = 2, STATUS = 3, CONFIDENCE = 4, HEADING = 5, SPEED = 6, ON_MAP = 7, MAJOR = 8, MINOR = 9, ANGLE = 10, SEARCHED = 11, INDEX = 12;
const TINTS = ["#e6007e", "#1e6ee6", "#14a082", "#9640c8", "#c05a00", "#0a8ea8", "#7a8a00", "#b0304a"];
const OFF_MAP = "not on this map";
const STALE_S = 15;  // without anything new for so long, a camera is shown faded

const GAP_S = 4;      // fixes further apart are drawn with a gap between them

class LiveMap {
  static start(map, options) {
    if (window.liveMap) return;
    window.liveMap = new LiveMap(map, options);
  }

  constructor(map, options) {
    this.map = map;
    this.options = options;
    this.cameras = new Map();
    this.chosen = null;   // id of the camera in the panel
    this.at = null;       // a fix of the past that is looked at; null: live
    this.shown = { roads: true, belief: true, trail: true, searches: true, fit: false };
    this.one = document.querySelector(".live-one");
    this.fitPicture = this.one.querySelectorAll(".live-frame img")[1];
    this.slider = document.querySelector(".live-strip input");
    this.strip = document.querySelector(".live-strip canvas");
    this.renderer = L.canvas({ padding: 0.4 });
    for (const [name, z] of [["roads", 310], ["belief", 320], ["trail", 420]]) map.createPane(`x2l-${name}`).style.zIndex = z;
    this.belief = L.imageOverlay("", [[0, 0], [0, 0]], { pane: "x2l-belief", className: "live-belief", opacity: 0.85 });
    this.fit = L.imageOverlay("", [[0, 0], [0, 0]], { pane: "x2l-belief", className: "live-fit", opacity: 0.5 });
    this.candidates = L.layerGroup().addTo(map);
    this.history = L.layerGroup().addTo(map);
    this.beacons = new Map();
    map.fitBounds(options.bounds, { animate: false });
    this.furniture();
    this.loadRoads();
    this.layers();
    this.listen();
  }

  // The map itself ----------------------------------------------------------------------------------------------------

  furniture() {
    const map = this.map, place = L.control({ position: "bottomright" });
    place.onAdd = () => (this.place = L.DomUtil.create("div", "leaflet-control-place"));
    place.addTo(map);
    L.control.scale({ imperial: false, maxWidth: 120 }).addTo(map);
    map.on("mousemove", (event) => {
      const { lat, lng } = event.latlng.wrap();
      this.place.textContent = `${lat.toFixed(6)}, ${lng.toFixed(6)}`;
    });
    map.on("mouseout", () => { this.place.textContent = ""; });
    map.on("dragstart", () => this.setFollow(false));
  }

  async loadRoads() {
    const answer = await fetch("/map/roads.json");
    if (!answer.ok) return;
    const lines = await answer.json(), style = getComputedStyle(document.body);
    const colours = ["--main-road", "--road", "--service-road"], widths = [3.2, 2.2, 1.2];
    if (this.roads) this.roads.remove();
    this.roads = L.layerGroup();
    const renderer = L.canvas({ pane: "x2l-roads", padding: 0.4 }), options = { renderer, pane: "x2l-roads", interactive: false, smoothFactor: 1.5 };
    for (const casing of [true, false]) {
      for (const kind of [2, 1, 0]) {
        if (!lines[kind] || !lines[kind].length) continue;
        const colour = style.getPropertyValue(casing ? "--casing" : colours[kind]).trim();
        L.polyline(lines[kind], { ...options, color: colour, weight: widths[kind] + (casing ? 1.8 : 0), opacity: casing ? 0.35 : 0.75 }).addTo(this.roads);
      }
    }
    if (this.shown.roads) this.roads.addTo(this.map);
  }

  // What the server sends ---------------------------------------------------------------------------------------------

  update(news) {
    for (const row of news.cameras || []) this.takeCamera(row);
    for (const id of news.gone || []) this.forget(id);
    for (const [name, lat, lon] of news.beacons || []) this.beacon(name, [lat, lon]);
    if (news.more !== undefined) this.more = news.more;
    this.chooseByItself();
    if (news.chosen && news.chosen.id === this.chosen) this.takeChosen(news.chosen);
    this.showList();
    this.showOne();
  }

  // The newest open camera, until somebody chooses one; and again when that one is gone.
  chooseByItself() {
    const cameras = [...this.cameras.values()], open = cameras.filter((camera) => camera.row.open);
    const ended = this.camera && !this.camera.row.open && !this.byHand && open.length;
    if (cameras.length && (!this.camera || ended)) this.choose((open.length ? open : cameras).pop().row.id);
  }

  takeCamera(row) {
    let camera = this.cameras.get(row.id);
    if (!camera) {
      camera = new Camera(this, row, TINTS[this.cameras.size % TINTS.length]);
      this.cameras.set(row.id, camera);
    }
    camera.take(row);
    if (row.id === this.chosen && row.fixes.length) {
      if (this.at === null && this.follows) camera.show(this.map);
      this.drawHistory();
    }
  }

  // A whole track, asked for when a camera was chosen.
  track(id, fixes) {
    const camera = this.cameras.get(id);
    if (!camera) return;
    const last = fixes.length ? fixes[fixes.length - 1][INDEX] : -1;
    camera.fixes = fixes.concat(camera.fixes.filter((fix) => fix[INDEX] > last));
    camera.drawTrail();
    if (id === this.chosen) { this.drawHistory(); this.showOne(); }
  }

  takeChosen(chosen) {
    const { belief, view, frame } = chosen;
    if (belief !== undefined) {
      this.candidates.clearLayers();
      if (belief) {
        this.belief.setUrl(belief.picture).setBounds(belief.corners);
        if (belief.candidates.length > 1) this.showCandidates(belief.candidates);
      }
      this.hasBelief = Boolean(belief);
    }
    if (view) {
      this.fit.setUrl(view.picture).setBounds(view.corners);
      this.fitPicture.src = view.picture;
    }
    if (frame) this.one.querySelector(".live-frame img").src = frame;
    if (frame !== undefined || view !== undefined) {
      const there = Boolean(frame || view || this.hasFrame);
      this.hasFrame = there;
      this.one.querySelector(".live-frame").hidden = this.one.querySelector(".live-frame-note").hidden = !there;
    }
    this.showOverlays();
  }

  showCandidates(candidates) {
    for (const [lat, lon, share] of candidates) {
      const icon = L.divIcon({ className: "live-candidate", html: `${Math.round(100 * share)}%`, iconSize: [34, 20], iconAnchor: [17, 26] });
      L.marker([lat, lon], { icon, interactive: false, title: "A place that the belief thinks possible" }).addTo(this.candidates);
    }
  }

  showOverlays() {
    const live = this.at === null;
    toggle(this.map, this.belief, live && this.shown.belief && this.hasBelief);
    toggle(this.map, this.candidates, live && this.shown.belief);
    toggle(this.map, this.fit, live && this.shown.fit && this.hasFrame);
    if (this.roads) toggle(this.map, this.roads, this.shown.roads);
  }

  forget(id) {
    const camera = this.cameras.get(id);
    if (camera) camera.remove();
    this.cameras.delete(id);
    if (id === this.chosen) { this.chosen = null; this.byHand = false; this.one.hidden = true; this.history.clearLayers(); }
  }

  // Something whose place is known otherwise, such as the car of a simulated drive.
  beacon(name, place) {
    let marker = this.beacons.get(name);
    if (!marker) {
      marker = L.marker(place, { icon: L.divIcon({ className: "live-beacon", iconSize: [15, 15] }), zIndexOffset: -100 });
      marker.bindTooltip(element("span", name)).addTo(this.map);
      this.beacons.set(name, marker);
    }
    glide(marker, place);
  }

  // The chosen camera -------------------------------------------------------------------------------------------------

  choose(id) {
    if (id === this.chosen) return;
    this.chosen = id;
    this.at = null;
    this.looked = false;
    this.hasBelief = this.hasFrame = false;
    this.candidates.clearLayers();
    this.one.querySelector(".live-frame").hidden = this.one.querySelector(".live-frame-note").hidden = true;
    this.fitPicture.removeAttribute("src");
    for (const camera of this.cameras.values()) camera.drawTrail();
    this.showOverlays();
    this.drawHistory();
    emitEvent("x2l-choose", { id });
    const links = this.options.exports.map(([name, address]) => {
      const link = element("a", name);
      link.href = address.replace("{id}", encodeURIComponent(id));
      link.setAttribute("download", "");
      return link;
    });
    this.one.querySelector(".live-export span").replaceChildren(...links);
  }

  get camera() {
    return this.cameras.get(this.chosen);
  }

  // The fix that is looked at: of the past, or the last one.
  get fix() {
    const fixes = this.camera ? this.camera.fixes : [];
    return fixes.length ? fixes[this.at === null ? fixes.length - 1 : Math.min(this.at, fixes.length - 1)] : null;
  }

  showList() {
    const list = document.querySelector(".live-cameras"), cameras = [...this.cameras.values()].reverse();
    const open = cameras.filter((camera) => camera.row.open).length, words = open === 1 ? "1 camera" : `${open} cameras`;
    document.querySelector(".live-count").textContent = words + (this.more ? `, ${this.more} more not shown` : "");
    while (list.children.length > cameras.length) list.lastChild.remove();
    while (list.children.length < cameras.length) {
      const button = element("button");
      button.type = "button";
      button.setAttribute("role", "option");
      button.append(element("i"), element("b"), element("span"));
      button.addEventListener("click", () => { this.byHand = true; this.choose(button.dataset.id); if (this.camera) this.camera.show(this.map, true); });
      list.append(button);
    }
    cameras.forEach((camera, i) => {
      const button = list.children[i], [, name, state] = button.children;
      button.dataset.id = camera.row.id;
      button.style.setProperty("--tint", camera.tint);
      button.className = camera.words() === OFF_MAP ? "off" : "";
      button.setAttribute("aria-selected", camera.row.id === this.chosen);
      name.textContent = camera.row.name;
      state.textContent = camera.words();
    });
    const banner = document.querySelector(".live-banner"), off = this.camera && this.camera.offMap(this.fix);
    banner.className = `live-banner${off ? " off" : ""}`;
    banner.hidden = Boolean(this.cameras.size) && !off && !this.hint;
    banner.textContent = this.hint || (off ? `${this.camera.row.name}: ${OFF_MAP}` : "Waiting for the first camera");
  }

  showOne() {
    const camera = this.camera, fix = this.fix;
    this.one.hidden = !camera;
    this.drawStrip();
    if (!camera) return;
    if (!this.looked && fix && fix[STATUS] === "t") {  // found: go there, once
      this.looked = true;
      camera.show(this.map, true);
    }
    const status = this.one.querySelector(".live-status"), off = camera.offMap(fix);
    status.className = `live-status ${off ? "off" : fix ? fix[STATUS] : ""}`;
    status.querySelector("span").textContent = statusWords(fix, off);
    const rows = [];
    if (fix) {
      rows.push(["confidence", `${Math.round(100 * fix[CONFIDENCE])}%`]);
      if (fix[ON_MAP] !== null) rows.push(["on this map", `${Math.round(100 * fix[ON_MAP])}%`]);
      if (fix[LAT] !== null) rows.push([fix[STATUS] === "t" ? "position" : "best guess", `${fix[LAT].toFixed(6)}, ${fix[LON].toFixed(6)}`]);
      if (fix[MAJOR] !== null) rows.push(["95% within", `${fix[MAJOR].toFixed(0)} × ${fix[MINOR].toFixed(0)} m`]);
      if (fix[HEADING] !== null) rows.push(["heading", `${Math.round(fix[HEADING])}° ${compass(fix[HEADING])}`]);
      if (fix[SPEED] !== null) rows.push(["speed", `${(3.6 * fix[SPEED]).toFixed(0)} km/h`]);
    }
    rows.push(["fixes", String(camera.fixes.length ? camera.fixes[camera.fixes.length - 1][INDEX] + 1 : 0)]);
    if (camera.row.dropped) rows.push(["frames dropped", String(camera.row.dropped)]);
    if (camera.row.source) rows.push(["source", camera.row.source]);
    this.one.querySelector("dl").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
    for (const name of ["box", "pin", "free"]) {
      const button = this.one.querySelector(`[data-do=${name}]`);
      button.hidden = !camera.row.open || (name === "free" && !camera.row.prior);
      button.setAttribute("aria-pressed", this.drawing === name);
    }
  }

  // The chosen camera's guesses, searches and prior; and its track so far when the past is looked at.
  drawHistory() {
    this.history.clearLayers();
    const camera = this.camera;
    if (!camera) return;
    const style = getComputedStyle(document.body), colour = (name) => style.getPropertyValue(name).trim();
    const common = { renderer: this.renderer, interactive: false }, end = this.at === null ? camera.fixes.length : this.at + 1;
    camera.fixes.slice(0, end).slice(-900).forEach((fix) => {
      if (fix[LAT] === null) return;
      if (this.shown.trail && fix[STATUS] !== "t") {
        L.circleMarker(fix.slice(LAT, LON + 1), { ...common, radius: 2.6, stroke: false, fillColor: colour("--guess"), fillOpacity: 0.3 + 0.6 * fix[CONFIDENCE] }).addTo(this.history);
      }
      if (this.shown.searches && fix[SEARCHED]) {
        L.circleMarker(fix.slice(LAT, LON + 1), { ...common, radius: 9, weight: 2, color: colour("--search"), fill: false }).addTo(this.history);
      }
    });
    const prior = camera.row.prior, dashed = { ...common, color: colour("--search"), weight: 2, dashArray: "6 6", fillOpacity: 0.05 };
    if (prior && prior.kind === "near") L.circle(prior.place, { ...dashed, radius: prior.radius }).addTo(this.history);
    if (prior && prior.kind === "box") L.rectangle(prior.corners, dashed).addTo(this.history);
    camera.place(this.fix, this.at !== null);
    camera.drawTrail();
  }

  drawStrip() {
    const canvas = this.strip, box = canvas.getBoundingClientRect(), sharp = window.devicePixelRatio || 1, pen = canvas.getContext("2d");
    canvas.width = Math.round(box.width * sharp);
    canvas.height = Math.round(box.height * sharp);
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    const fixes = this.camera ? this.camera.fixes : [], count = fixes.length, { width, height } = box;
    const style = getComputedStyle(document.body), colour = (name) => style.getPropertyValue(name).trim();
    const span = count ? Math.max(fixes[count - 1][TIME] - fixes[0][TIME], 30) : 1;
    const place = (i) => ((fixes[i][TIME] - fixes[0][TIME]) / span) * (width - 6) + 3, at = this.at === null ? count - 1 : this.at;
    pen.fillStyle = colour("--line");
    pen.fillRect(0, height - 3, width, 1);
    pen.globalAlpha = 0.5;
    pen.fillRect(0, 9 + 0.1 * (height - 12), width, 1);
    for (let i = 0; i < count; i++) {
      const fix = fixes[i], left = Math.round(place(i)), next = i + 1 < count && fixes[i + 1][TIME] - fix[TIME] <= GAP_S;
      const right = next ? Math.round(place(i + 1)) : left + 3;
      const off = this.camera.offMap(fix), tall = 2 + fix[CONFIDENCE] * (height - 14);
      pen.fillStyle = colour(fix[STATUS] === "t" ? "--sure" : off ? "--warn" : fix[LAT] === null ? "--line" : "--guess");
      pen.globalAlpha = i <= at ? 1 : 0.4;
      pen.fillRect(left, height - 3 - tall, Math.max(1, right - left), tall);
      pen.fillStyle = colour("--search");
      if (fix[SEARCHED]) pen.fillRect(left - 1, 0, 2, 6);
    }
    pen.globalAlpha = 1;
    pen.fillStyle = colour("--ink");
    if (count) pen.fillRect(place(at) - 1.5, 0, 3, height);
    this.slider.max = Math.max(0, count - 1);
    this.slider.value = Math.max(0, at);
    document.querySelector(".live-time output").textContent = count ? clock(fixes[at][TIME] - fixes[0][TIME]) : "";
    const live = document.querySelector(".live-live"), open = Boolean(this.camera && this.camera.row.open);
    live.textContent = open ? "LIVE" : "ENDED";
    live.classList.toggle("on", open && this.at === null);
  }

  // The past: a number of a fix, or null for now.
  look(at) {
    const count = this.camera ? this.camera.fixes.length : 0;
    this.at = at === null || (at >= count - 1 && this.camera && this.camera.row.open) ? null : Math.max(0, Math.min(at, count - 1));
    this.showOverlays();
    this.drawHistory();
    this.showList();
    this.showOne();
    if (this.follows && this.camera) this.camera.show(this.map);
  }

  play(on) {
    clearInterval(this.playing);
    this.playing = null;
    document.querySelector("[data-do=play]").textContent = on ? "❚❚" : "▶";
    if (!on || !this.camera) return;
    const last = () => this.camera.fixes.length - 1;
    if (this.at === null || this.at >= last()) this.look(0);
    this.playing = setInterval(() => {
      if (!this.camera || this.at === null || this.at >= last()) this.play(false);
      else this.look(this.at + 1);
    }, 100);
  }

  // What people do ----------------------------------------------------------------------------------------------------

  do(what) {
    if (what === "night") emitEvent("x2l-night", { dark: isDark() });
    if (what === "follow") this.setFollow(!this.follows);
    if (what === "play") this.play(!this.playing);
    if (what === "live") { this.play(false); this.look(null); }
    if (what === "free") emitEvent("x2l-prior", { id: this.chosen, kind: "none" });
    if (what === "box" || what === "pin") this.draw(this.drawing === what ? null : what);
  }

  setFollow(on) {
    this.follows = on;
    this.one.querySelector("[data-do=follow]").setAttribute("aria-pressed", on);
    if (on && this.camera) this.camera.show(this.map, true);
  }

  draw(kind) {
    this.drawing = kind;
    this.map.getContainer().classList.toggle("live-drawing", Boolean(kind));
    if (kind) this.map.dragging.disable();
    else this.map.dragging.enable();
    this.hint = kind === "box" ? "Drag a box over the area that the camera is in" : kind ? "Drag from the place outward, as far as the camera may be" : "";
    this.showList();
    this.showOne();
  }

  listenToDrawing() {
    let from = null, shape = null;
    const place = (event) => this.map.mouseEventToLatLng(event), box = this.map.getContainer();
    box.addEventListener("pointerdown", (event) => {
      if (!this.drawing || event.target.closest(".leaflet-control")) return;
      event.preventDefault();
      from = place(event);
      const style = { color: "#00b4e6", weight: 2, dashArray: "6 6", interactive: false };
      shape = (this.drawing === "box" ? L.rectangle([from, from], style) : L.circle(from, { ...style, radius: 1 })).addTo(this.map);
    });
    box.addEventListener("pointermove", (event) => {
      if (!shape) return;
      if (this.drawing === "box") shape.setBounds(L.latLngBounds(from, place(event)));
      else shape.setRadius(Math.max(1, this.map.distance(from, place(event))));
    });
    window.addEventListener("pointerup", (event) => {
      if (!shape) return;
      const kind = this.drawing, to = place(event), done = shape;
      shape = null;
      done.remove();
      this.draw(null);
      const start = from.wrap(), bounds = L.latLngBounds(from, to);
      if (kind === "box") {
        const low = bounds.getSouthWest().wrap(), high = bounds.getNorthEast().wrap();
        emitEvent("x2l-prior", { id: this.chosen, kind, west: low.lng, south: low.lat, east: high.lng, north: high.lat });
      } else {
        emitEvent("x2l-prior", { id: this.chosen, kind: "near", lat: start.lat, lon: start.lng, radius: this.map.distance(from, to) });
      }
    });
  }

  layers() {
    const choices = [["roads", "roads", "var(--main-road)"], ["belief", "belief: where it may be", "linear-gradient(90deg, #3c148c, #e12878, #ffaa28)"],
      ["trail", "guesses, not sure", "var(--guess)"], ["searches", "whole map searched again", "var(--search)"], ["fit", "how tiles fit the frame", "linear-gradient(90deg, #141246, #d74b5a, #faf596)"]];
    for (const [name, words, colour] of choices) {
      const label = element("label"), box = element("input"), swatch = element("i");
      box.type = "checkbox";
      box.checked = this.shown[name];
      box.dataset.layer = name;
      box.addEventListener("change", () => { this.shown[name] = box.checked; this.showOverlays(); this.drawHistory(); });
      swatch.style.background = colour;
      label.append(box, swatch, words);
      document.querySelector(".live-layers").append(label);
    }
  }

  listen() {
    document.addEventListener("click", (event) => {
      const button = event.target.closest(".live [data-do]");
      if (button) this.do(button.dataset.do);
    });
    document.addEventListener("keydown", (event) => {
      if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
      const does = { " ": "play", f: "follow", l: "live" }[event.key];
      if (event.key === "Escape" && this.drawing) this.draw(null);
      if (!does || event.target.matches("button")) return;
      event.preventDefault();
      this.do(does);
    });
    this.slider.addEventListener("input", () => { this.play(false); this.look(Number(this.slider.value)); });
    new ResizeObserver(() => this.drawStrip()).observe(this.strip);
    let dark = isDark();
    new MutationObserver(() => {
      if (dark === isDark()) return;
      dark = isDark();
      this.loadRoads();
      this.drawHistory();
      this.drawStrip();
    }).observe(document.body, { attributeFilter: ["class"] });
    this.listenToDrawing();
  }
}

// One camera on the map: an arrow, an ellipse, a trail.
class Camera {
  constructor(page, row, tint) {
    this.page = page;
    this.tint = tint;
    this.row = row;
    this.fixes = [];
    const shape = `<svg viewBox="-23 -23 46 46"><circle class="pulse" r="9"/><g><path class="arrow" d="M0 -16 L11 12 L0 6 L-11 12 Z"/></g></svg><b></b>`;
    const icon = L.divIcon({ className: "live-camera", html: shape, iconSize: [46, 46], iconAnchor: [23, 23] });
    this.marker = L.marker([0, 0], { icon, keyboard: true, alt: row.name, riseOnHover: true });
    this.marker.on("click", () => { page.byHand = true; page.choose(this.row.id); });
    this.ellipse = L.polygon([], { color: tint, weight: 1.5, fillOpacity: 0.16, interactive: false });
    this.trail = [["#ffffff", 7, 0.85], [tint, 4, 1]].map(([color, weight, opacity]) =>
      L.polyline([], { color, weight, opacity, interactive: false, renderer: page.renderer, lineJoin: "round" }).addTo(page.map));
  }

  take(row) {
    const last = this.fixes.length ? this.fixes[this.fixes.length - 1][INDEX] : -1;
    this.row = row;
    this.fixes.push(...row.fixes.filter((fix) => fix[INDEX] > last));
    if (this.page.chosen !== row.id || this.page.at === null) this.place(this.fixes[this.fixes.length - 1]);
    if (row.fixes.length) this.drawTrail();
  }

  place(fix, jump = false) {
    if (!fix || fix[LAT] === null) {
      if (this.marker._icon) this.marker._icon.classList.add("old");
      this.ellipse.remove();
      return;
    }
    const place = [fix[LAT], fix[LON]], fresh = !this.marker._map;
    if (fresh) this.marker.setLatLng(place).addTo(this.page.map);
    if (jump || fresh) still(this.marker, place);
    else glide(this.marker, place);
    const icon = this.marker._icon, sure = fix[STATUS] === "t", idle = !this.row.open || this.row.idle > STALE_S;
    icon.style.setProperty("--tint", this.tint);
    icon.classList.toggle("guess", !sure);
    icon.classList.toggle("old", idle && !jump);
    icon.classList.toggle("fresh", sure && !idle);
    icon.querySelector("b").textContent = this.row.name;
    if (fix[HEADING] !== null) icon.querySelector("g").setAttribute("transform", `rotate(${fix[HEADING]})`);
    this.ellipse.setStyle({ dashArray: sure ? null : "5 5", color: sure ? this.tint : "#ff9d00" });
    if (fix[MAJOR] === null || fix[MAJOR] > 5000) this.ellipse.remove();
    else this.ellipse.setLatLngs(outline(fix)).addTo(this.page.map);
  }

  // Lines through the sure positions, broken where they jump; up to the fix that is looked at.
  drawTrail() {
    const chosen = this.page.chosen === this.row.id, end = chosen && this.page.at !== null ? this.page.at + 1 : this.fixes.length;
    const lines = [];
    let last = null;
    for (const fix of this.fixes.slice(0, end)) {
      if (fix[STATUS] !== "t") { last = null; continue; }
      const place = [fix[LAT], fix[LON]];
      const near = last && metres(last, fix) <= 60 * Math.abs(fix[TIME] - last[TIME]) + 40;  // as in the files of a track
      if (near) lines[lines.length - 1].push(place);
      else lines.push([place]);
      last = fix;
    }
    for (const line of this.trail) line.setLatLngs(lines).setStyle({ opacity: chosen ? line.options.weight === 7 ? 0.85 : 1 : 0.5 });
  }

  offMap(fix = this.fixes[this.fixes.length - 1]) {
    return Boolean(fix && fix[STATUS] !== "t" && fix[ON_MAP] !== null && fix[ON_MAP] < this.page.options.offMap);
  }

  words() {
    const fix = this.fixes[this.fixes.length - 1];
    if (!this.row.open) return "ended";
    if (!fix) return "no fix yet";
    if (this.row.idle > STALE_S) return `silent for ${clock(this.row.idle)}`;
    if (this.offMap()) return OFF_MAP;
    return { t: "sure", l: "locating", x: "lost" }[fix[STATUS]] + ` ${Math.round(100 * fix[CONFIDENCE])}%`;
  }

  show(map, zoom = false) {
    const fix = this.page.chosen === this.row.id ? this.page.fix : this.fixes[this.fixes.length - 1];
    if (!fix || fix[LAT] === null) return;
    if (zoom && fix[STATUS] === "t" && map.getZoom() < 17) map.flyTo([fix[LAT], fix[LON]], 17, { duration: 0.6 });
    else if (!zoom || fix[STATUS] === "t") map.panTo([fix[LAT], fix[LON]], { animate: true, duration: 0.9, easeLinearity: 1 });
  }

  remove() {
    for (const layer of [this.marker, this.ellipse, ...this.trail]) layer.remove();
  }
}

// Helpers -------------------------------------------------------------------------------------------------------------

function isDark() {
  return document.body.classList.contains("body--dark");
}

function toggle(map, layer, on) {
  if (on && !map.hasLayer(layer)) layer.addTo(map);
  if (!on && map.hasLayer(layer)) layer.remove();
}

// Move a marker evenly for a second: the time between two fixes.
function glide(marker, to) {
  const from = marker.getLatLng(), start = performance.now();
  if (metres([0, from.lat, from.lng], [0, ...to]) > 60) return still(marker, to);  // a jump is shown as one
  cancelAnimationFrame(marker.gliding);
  const step = (now) => {
    const share = Math.min(1, (now - start) / 1000);
    marker.setLatLng([from.lat + share * (to[0] - from.lat), from.lng + share * (to[1] - from.lng)]);
    if (share < 1) marker.gliding = requestAnimationFrame(step);
  };
  marker.gliding = requestAnimationFrame(step);
}

function still(marker, to) {
  cancelAnimationFrame(marker.gliding);
  marker.setLatLng(to);
}

function metres(a, b) {
  const east = (b[LON] - a[LON]) * Math.cos((a[LAT] * Math.PI) / 180);
  return Math.hypot(b[LAT] - a[LAT], east) * 111320;
}

// The outline of an error ellipse, in degrees.
function outline(fix) {
  const turn = (fix[ANGLE] * Math.PI) / 180, points = [], metre = 1 / 111320, wide = metre / Math.cos((fix[LAT] * Math.PI) / 180);
  for (let k = 0; k < 48; k++) {
    const along = fix[MAJOR] * Math.cos((k * Math.PI) / 24), across = fix[MINOR] * Math.sin((k * Math.PI) / 24);
    const east = along * Math.sin(turn) + across * Math.cos(turn), north = along * Math.cos(turn) - across * Math.sin(turn);
    points.push([fix[LAT] + north * metre, fix[LON] + east * wide]);
  }
  return points;
}

function statusWords(fix, off) {
  if (!fix) return "No fix yet";
  if (off) return "Not on this map";
  if (fix[LAT] === null) return "Lost: no guess";
  return { t: "Sure of the position", l: "Locating: not sure yet", x: "Lost: only a guess" }[fix[STATUS]];
}

function compass(degrees) {
  return ["N", "NE", "E", "SE", "S", "SW", "W", "NW"][Math.round(degrees / 45) % 8];
}

function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds)), two = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(whole / 3600), rest = `${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  return hours ? `${hours}:${rest}` : rest;
}

function element(name, text) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return made;
}

window.LiveMap = LiveMap;
