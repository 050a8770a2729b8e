// A track on a map to pan, zoom and replay. Plain JavaScript: it reads the JSON beside it, draws on a canvas, and loads
// nothing. Lengths called "units" are map units: a 256th of a tile, east and south of the map's north-west corner.
"use strict";

class TrackMap {
  constructor(root, data) {
    this.root = root;
    this.map = data.map;
    this.fixes = data.fixes;
    this.truth = data.truth;
    this.views = data.views;
    this.candidates = data.candidates;
    this.canvas = root.querySelector(".map-stage canvas");
    this.pen = this.canvas.getContext("2d");
    this.strip = root.querySelector(".map-time canvas");
    this.slider = root.querySelector("input[type=range]");
    this.roads = data.roads.map(pathOfRoads);
    this.shown = { picture: true, roads: true, truth: true, guesses: true, ellipses: true, heat: false, searches: true };
    this.pointers = new Map();
    this.at = this.fixes.time.length - 1;  // the fix that is shown in the panel
    this.playing = false;
    this.follows = false;
    if (data.picture) {
      this.picture = new Image();
      this.picture.onload = () => this.draw();
      this.picture.src = data.picture;
    }
    this.heats = this.views.map((_, k) => document.querySelector(`#view-${k} img + img`));
    this.layers();
    this.listen();
    this.resize();
    this.fit();
    this.select(this.at);
  }

  // Places ------------------------------------------------------------------------------------------------------------

  toScreen(x, y) {
    return [(x - this.left) * this.zoom, (y - this.top) * this.zoom];
  }

  toUnits(x, y) {
    return [x / this.zoom + this.left, y / this.zoom + this.top];
  }

  degrees(x, y) {
    const world = 2 ** this.map.z;
    const lon = ((this.map.west + x / this.map.units) / world) * 360 - 180;
    const row = (this.map.north + y / this.map.units) / world;
    const lat = (Math.atan(Math.sinh(Math.PI * (1 - 2 * row))) * 180) / Math.PI;
    return [lat, ((((lon + 180) % 360) + 360) % 360) - 180];
  }

  // What is in view ---------------------------------------------------------------------------------------------------

  fit() {
    const f = this.fixes, t = this.truth;
    let points = f.x.map((x, i) => [x, f.y[i], f.status[i]]).filter(([x, , s]) => x !== null && s === "t");
    if (!points.length) points = f.x.map((x, i) => [x, f.y[i]]).filter(([x]) => x !== null);
    if (t) points = points.concat(t.x.map((x, i) => [x, t.y[i]]).filter(([x]) => x !== null));
    const inside = points.filter(([x, y]) => x >= 0 && y >= 0 && x <= this.map.width && y <= this.map.height);
    if (inside.length) points = inside;
    const [west, east] = range(points.map((p) => p[0])), [north, south] = range(points.map((p) => p[1]));
    const least = 60 / this.map.metres;  // a camera that stands still is shown with its surroundings
    const width = Math.max(east - west, least), height = Math.max(south - north, least);
    this.zoom = Math.min(this.width / (width * 1.2), this.height / (height * 1.2));
    this.centre((west + east) / 2, (north + south) / 2);
    this.follows = false;
    this.draw();
  }

  centre(x, y) {
    this.left = x - this.width / 2 / this.zoom;
    this.top = y - this.height / 2 / this.zoom;
  }

  zoomAt(factor, x = this.width / 2, y = this.height / 2) {
    const [ux, uy] = this.toUnits(x, y);
    const least = Math.min(this.width / this.map.width, this.height / this.map.height) / 4;
    this.zoom = Math.min(Math.max(this.zoom * factor, least), 40 * this.map.metres);  // at most 40 pixels to a metre
    this.left = ux - x / this.zoom;
    this.top = uy - y / this.zoom;
    this.draw();
  }

  pan(dx, dy) {
    this.left -= dx / this.zoom;
    this.top -= dy / this.zoom;
    this.draw();
  }

  resize() {
    const box = this.canvas.getBoundingClientRect(), sharp = window.devicePixelRatio || 1;
    const middle = this.width ? this.toUnits(this.width / 2, this.height / 2) : null;
    [this.width, this.height] = [box.width, box.height];
    for (const canvas of [this.canvas, this.strip]) {
      const size = canvas.getBoundingClientRect();
      canvas.width = Math.round(size.width * sharp);
      canvas.height = Math.round(size.height * sharp);
      canvas.getContext("2d").setTransform(sharp, 0, 0, sharp, 0, 0);
    }
    if (middle) this.centre(...middle);
    this.draw();
  }

  // Drawing -----------------------------------------------------------------------------------------------------------

  draw() {
    if (this.drawing || this.zoom === undefined) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.colours = readColours(this.root);
      this.drawMap();
      this.drawStrip();
    });
  }

  drawMap() {
    const pen = this.pen, c = this.colours;
    pen.fillStyle = c.ground;
    pen.fillRect(0, 0, this.width, this.height);
    if (this.picture && this.picture.complete && this.shown.picture) {
      const [x, y] = this.toScreen(0, 0);
      pen.globalAlpha = c.dim;
      pen.drawImage(this.picture, x, y, this.map.width * this.zoom, this.map.height * this.zoom);
      pen.globalAlpha = 1;
    }
    if (this.shown.roads) this.drawRoads();
    if (this.shown.heat) this.drawHeat();
    if (this.shown.searches) this.drawSearches();
    if (this.shown.guesses) this.drawGuesses();
    if (this.truth && this.shown.truth) this.drawTruth();
    if (this.shown.ellipses) this.drawEllipses();
    this.drawSure();
    this.drawCamera();
    this.drawScale();
  }

  drawRoads() {
    const pen = this.pen, c = this.colours, over = this.picture && this.shown.picture;
    const metre = this.zoom / this.map.metres;  // pixels
    const colours = [c.mainRoad, c.road, c.serviceRoad], widths = [7, 5, 3], least = [2, 1.2, 0.7];
    pen.save();
    pen.lineCap = pen.lineJoin = "round";
    pen.globalAlpha *= over ? 0.62 : 1;
    pen.translate(-this.left * this.zoom, -this.top * this.zoom);
    pen.scale(this.zoom, this.zoom);
    for (const casing of [true, false]) {
      for (const kind of [2, 1, 0]) {
        if (!this.roads[kind]) continue;
        const width = Math.max(least[kind], Math.min(widths[kind] * metre * (over ? 0.5 : 1), widths[kind] * 3));
        pen.strokeStyle = casing ? c.casing : colours[kind];
        pen.lineWidth = (width + (casing ? 1.6 : 0)) / this.zoom;
        pen.stroke(this.roads[kind]);
      }
    }
    pen.restore();
  }

  drawHeat() {
    const k = this.viewAt(this.fixes.time[this.at]);
    if (k < 0 || !this.heats[k]) return;
    const [x, y, side] = this.views[k].box, [sx, sy] = this.toScreen(x, y);
    this.pen.globalAlpha = 0.55;
    this.pen.drawImage(this.heats[k], sx, sy, side * this.zoom, side * this.zoom);
    this.pen.globalAlpha = 1;
  }

  drawSearches() {
    const pen = this.pen, f = this.fixes;
    pen.strokeStyle = this.colours.search;
    pen.lineWidth = 1;
    pen.globalAlpha = 0.5;
    for (const [x, y, side] of this.candidates) {
      const [sx, sy] = this.toScreen(x, y);
      pen.strokeRect(sx, sy, side * this.zoom, side * this.zoom);
    }
    pen.globalAlpha = 1;
    pen.lineWidth = 1.8;
    for (const i of f.searched) {
      if (f.x[i] !== null && i <= this.at) this.ring(f.x[i], f.y[i], 9);
    }
  }

  drawGuesses() {
    const pen = this.pen, f = this.fixes;
    pen.fillStyle = this.colours.guess;
    for (let i = 0; i < f.x.length; i++) {
      if (f.x[i] === null || f.status[i] === "t") continue;
      const [x, y] = this.toScreen(f.x[i], f.y[i]);
      if (x < -5 || y < -5 || x > this.width + 5 || y > this.height + 5) continue;
      pen.globalAlpha = (0.35 + 0.6 * f.confidence[i]) * (i <= this.at ? 1 : 0.35);
      pen.beginPath();
      pen.arc(x, y, 3.2, 0, 2 * Math.PI);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  drawTruth() {
    const lines = runs(this.truth.x.length, (i) => this.truth.x[i] !== null);
    for (const [width, colour] of [[7, this.colours.halo], [4, this.colours.truth]]) {
      for (const [start, end] of lines) this.line(this.truth, start, end, width, colour);
    }
  }

  drawEllipses() {
    const pen = this.pen, f = this.fixes, every = Math.max(10, (f.time[f.time.length - 1] - f.time[0]) / 120);
    let last = -Infinity;
    for (let i = 0; i <= this.at; i++) {
      if (f.status[i] !== "t" || !f.ellipse[i] || f.time[i] - last < every) continue;
      last = f.time[i];
      this.ellipse(i, 0.16);
    }
    pen.globalAlpha = 1;
  }

  ellipse(i, fill) {
    const pen = this.pen, f = this.fixes, [major, minor, angle] = f.ellipse[i], metre = this.zoom / this.map.metres;
    const [x, y] = this.toScreen(f.x[i], f.y[i]);
    pen.beginPath();
    pen.ellipse(x, y, major * metre, minor * metre, ((angle - 90) * Math.PI) / 180, 0, 2 * Math.PI);
    pen.fillStyle = pen.strokeStyle = f.status[i] === "t" ? this.colours.sure : this.colours.guess;
    pen.globalAlpha = fill;
    pen.fill();
    pen.globalAlpha = 0.8;
    pen.lineWidth = 1;
    pen.stroke();
    pen.globalAlpha = 1;
  }

  drawSure() {
    const f = this.fixes;
    const follows = (i) => i === 0 || f.status[i - 1] !== "t" || this.near(i - 1, i);
    for (const [start, end] of runs(f.x.length, (i) => f.status[i] === "t", follows)) {
      const past = Math.min(end, this.at + 1);
      this.pen.globalAlpha = 0.3;
      this.line(f, start, end, 3, this.colours.sure);
      this.pen.globalAlpha = 1;
      if (past > start) {
        this.line(f, start, past, 5.5, this.colours.halo);
        this.line(f, start, past, 3.4, this.colours.sure);
      }
    }
  }

  // A jump between two positions is no line. As in the files of the track: 60 m/s and 40 m.
  near(i, j) {
    const f = this.fixes, metres = Math.hypot(f.x[i] - f.x[j], f.y[i] - f.y[j]) * this.map.metres;
    return metres <= 60 * Math.abs(f.time[i] - f.time[j]) + 40;
  }

  line(points, start, end, width, colour) {
    const pen = this.pen;
    pen.beginPath();
    for (let i = start; i < end; i++) {
      const [x, y] = this.toScreen(points.x[i], points.y[i]);
      if (i === start) pen.moveTo(x, y);
      pen.lineTo(x, y);
    }
    pen.lineCap = pen.lineJoin = "round";
    pen.lineWidth = width;
    pen.strokeStyle = colour;
    pen.stroke();
  }

  ring(x, y, radius) {
    this.pen.beginPath();
    this.pen.arc(...this.toScreen(x, y), radius, 0, 2 * Math.PI);
    this.pen.stroke();
  }

  drawCamera() {
    const pen = this.pen, f = this.fixes, i = this.at;
    if (f.x[i] === null) return;
    const [x, y] = this.toScreen(f.x[i], f.y[i]), colour = f.status[i] === "t" ? this.colours.sure : this.colours.guess;
    if (f.ellipse[i]) this.ellipse(i, 0.25);
    pen.save();
    pen.translate(x, y);
    pen.fillStyle = colour;
    pen.strokeStyle = "#fff";
    pen.lineWidth = 2.5;
    pen.beginPath();
    if (f.heading[i] === null) {
      pen.arc(0, 0, 8, 0, 2 * Math.PI);
    } else {
      pen.rotate((f.heading[i] * Math.PI) / 180);
      for (const [dx, dy] of [[0, -15], [10, 11], [0, 5], [-10, 11]]) pen.lineTo(dx, dy);
      pen.closePath();
    }
    pen.stroke();
    pen.fill();
    pen.restore();
  }

  drawScale() {
    const most = (110 / this.zoom) * this.map.metres, power = 10 ** Math.floor(Math.log10(most));
    const metres = [5, 2, 1].map((n) => n * power).find((n) => n <= most);
    const bar = this.root.querySelector(".map-scale");
    bar.querySelector("i").style.width = `${(metres / this.map.metres) * this.zoom}px`;
    bar.querySelector("span").textContent = metres >= 1000 ? `${metres / 1000} km` : `${metres} m`;
  }

  // Confidence over time, in the colours of the status; a mark where the map was searched.
  drawStrip() {
    const pen = this.strip.getContext("2d"), f = this.fixes, c = this.colours, count = f.time.length;
    const { width, height } = this.strip.getBoundingClientRect();
    const start = f.time[0], span = Math.max(f.time[count - 1] - start, 1e-6);
    const place = (i) => ((f.time[i] - start) / span) * (width - 8) + 4;
    pen.clearRect(0, 0, width, height);
    pen.fillStyle = c.line;
    pen.fillRect(0, height - 3, width, 1);
    for (let i = 0; i < count; i++) {
      pen.fillStyle = f.status[i] === "t" ? c.sure : f.x[i] === null ? c.line : c.guess;
      pen.globalAlpha = i <= this.at ? 1 : 0.4;
      const tall = 2 + f.confidence[i] * (height - 12), left = Math.round(place(i));
      const right = i + 1 < count ? Math.round(place(i + 1)) : left + 2;  // whole pixels, or seams would show
      pen.fillRect(left, height - 3 - tall, Math.max(1, right - left), tall);
    }
    pen.globalAlpha = 1;
    pen.fillStyle = c.search;
    for (const i of f.searched) pen.fillRect(place(i) - 1, 0, 2, 6);
    pen.fillStyle = c.ink;
    pen.fillRect(place(this.at) - 1.5, 0, 3, height);
  }

  // One fix -----------------------------------------------------------------------------------------------------------

  select(i) {
    const f = this.fixes;
    this.at = Math.min(Math.max(i, 0), f.time.length - 1);
    i = this.at;
    this.slider.value = i;
    this.root.querySelector("output").textContent = clock(f.time[i]);
    const words = { t: "Sure of the position", l: "Locating: not sure yet", x: "Lost: only a guess" };
    const status = this.root.querySelector(".map-status");
    const off = f.on_map[i] !== null && f.on_map[i] < 0.5 && f.status[i] !== "t";
    status.textContent = off ? "Probably not on this map" : f.x[i] === null ? "Lost: no guess" : words[f.status[i]];
    status.className = `map-status ${f.status[i]}`;
    const banner = this.root.querySelector(".map-banner");
    banner.hidden = !off;
    banner.textContent = "Probably not on this map";
    this.numbers(i);
    this.showView(this.viewAt(f.time[i]));
    if (this.follows && f.x[i] !== null) this.centre(f.x[i], f.y[i]);
    this.draw();
  }

  numbers(i) {
    const f = this.fixes, rows = [["time", clock(f.time[i])], ["confidence", `${Math.round(100 * f.confidence[i])}%`]];
    if (f.on_map[i] !== null) rows.push(["on this map", `${Math.round(100 * f.on_map[i])}%`]);
    if (f.speed[i] !== null) rows.push(["speed", `${f.speed[i].toFixed(1)} m/s`]);
    if (f.heading[i] !== null) rows.push(["heading", `${Math.round(f.heading[i])}°`]);
    if (f.ellipse[i]) rows.push(["95% within", `${f.ellipse[i][0].toFixed(0)} × ${f.ellipse[i][1].toFixed(0)} m`]);
    if (f.lat[i] !== null) rows.push(["latitude", f.lat[i].toFixed(6)], ["longitude", f.lon[i].toFixed(6)]);
    if (this.truth && this.truth.x[i] !== null && f.x[i] !== null) {
      const off = Math.hypot(f.x[i] - this.truth.x[i], f.y[i] - this.truth.y[i]) * this.map.metres;
      rows.push(["off the truth", `${off.toFixed(off < 10 ? 1 : 0)} m`]);
    }
    const list = this.root.querySelector("dl");
    list.replaceChildren(...rows.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
  }

  // The view nearest in time.
  viewAt(time) {
    let best = -1;
    this.views.forEach((view, k) => {
      if (best < 0 || Math.abs(view.time - time) < Math.abs(this.views[best].time - time)) best = k;
    });
    return best;
  }

  showView(k) {
    const figure = this.root.querySelector("figure"), from = document.querySelector(`#view-${k}`);
    figure.hidden = !from;
    if (!from || figure.dataset.view === String(k)) return;
    figure.dataset.view = k;
    const [frame, heat] = from.querySelectorAll("img"), [a, b] = figure.querySelectorAll("img");
    a.src = frame.src;
    b.src = heat.src;
    figure.querySelector("figcaption").textContent =
      `Frame at ${clock(this.views[k].time)}, and how well each tile of the region around the guess fits it.`;
  }

  nearest(x, y, reach = 16) {
    const f = this.fixes;
    let best = -1;
    for (let i = 0; i < f.x.length; i++) {
      if (f.x[i] === null) continue;
      const [sx, sy] = this.toScreen(f.x[i], f.y[i]), away = Math.hypot(sx - x, sy - y);
      if (away < reach) [best, reach] = [i, away];
    }
    return best;
  }

  // Replay ------------------------------------------------------------------------------------------------------------

  play(on) {
    this.playing = on;
    const button = this.root.querySelector("[data-do=play]");
    button.textContent = on ? "❚❚" : "▶";
    button.setAttribute("aria-label", on ? "Pause" : "Play");
    if (!on) return;
    const f = this.fixes;
    if (this.at >= f.time.length - 1) this.select(0);
    let now = f.time[this.at], last = performance.now();
    const tick = (time) => {
      if (!this.playing) return;
      now += ((time - last) / 1000) * Number(this.root.querySelector("select").value);
      last = time;
      let i = this.at;
      while (i < f.time.length - 1 && f.time[i + 1] <= now) i++;
      if (i !== this.at) this.select(i);
      if (i >= f.time.length - 1) this.play(false);
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  // What people do ----------------------------------------------------------------------------------------------------

  do(what) {
    if (what === "in") this.zoomAt(1.5);
    if (what === "out") this.zoomAt(1 / 1.5);
    if (what === "fit") this.fit();
    if (what === "play") this.play(!this.playing);
    if (what === "follow") {
      this.follows = !this.follows;
      if (this.follows) this.zoom = Math.max(this.zoom, 0.8 * this.map.metres);
      this.select(this.at);
    }
    this.root.querySelector("[data-do=follow]").setAttribute("aria-pressed", this.follows);
  }

  layers() {
    const choices = [
      ["picture", "imagery", null, this.picture], ["roads", "roads", "var(--main-road)", this.roads.length],
      ["truth", "truth", "var(--truth)", this.truth], ["guesses", "guess, not sure", "var(--guess)", true],
      ["ellipses", "95% ellipses of sure positions", "var(--sure)", this.fixes.ellipse.some((e) => e)],
      ["searches", this.candidates.length ? "searched again; candidate regions" : "whole map searched again",
        "var(--search)", this.fixes.searched.length],
      ["heat", "heat map of the frame", null, this.views.length],
    ];
    for (const [name, words, colour, there] of choices) {
      if (!there) continue;
      const label = element("label"), box = element("input"), swatch = element("i");
      box.type = "checkbox";
      box.checked = this.shown[name];
      box.addEventListener("change", () => { this.shown[name] = box.checked; this.draw(); });
      swatch.style.cssText = colour ? `background:${colour}` : "display:none";
      label.append(box, swatch, words);
      this.root.querySelector(".map-layers").append(label);
    }
  }

  listen() {
    const canvas = this.canvas;
    this.slider.max = this.fixes.time.length - 1;
    this.slider.addEventListener("input", () => { this.play(false); this.select(Number(this.slider.value)); });
    this.root.addEventListener("click", (event) => {
      const button = event.target.closest("[data-do]");
      if (button) this.do(button.dataset.do);
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomAt(2 ** (-event.deltaY * (event.deltaMode ? 20 : 1) / 300), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => this.zoomAt(2, event.offsetX, event.offsetY));
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => this.up(event));
    canvas.addEventListener("pointerleave", () => { this.root.querySelector(".map-place").textContent = ""; });
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resize()).observe(canvas);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.pressed = this.pointers.size === 1 ? [event.offsetX, event.offsetY] : null;
  }

  move(event) {
    const [lat, lon] = this.degrees(...this.toUnits(event.offsetX, event.offsetY));
    this.root.querySelector(".map-place").textContent = `${lat.toFixed(6)}, ${lon.toFixed(6)}`;
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const now = [event.offsetX, event.offsetY], other = [...this.pointers].find(([id]) => id !== event.pointerId);
    this.pointers.set(event.pointerId, now);
    if (this.pressed && Math.hypot(now[0] - this.pressed[0], now[1] - this.pressed[1]) > 5) this.pressed = null;
    if (other) {  // two fingers: pinch
      const [ox, oy] = other[1], apart = (p) => Math.max(1, Math.hypot(p[0] - ox, p[1] - oy));
      this.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
      this.zoomAt(apart(now) / apart(before), (now[0] + ox) / 2, (now[1] + oy) / 2);
    } else {
      this.follows = false;
      this.root.querySelector("[data-do=follow]").setAttribute("aria-pressed", false);
      this.pan(now[0] - before[0], now[1] - before[1]);
    }
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    const pressed = event.type === "pointerup" && this.pressed;
    this.pressed = null;
    const i = pressed ? this.nearest(...pressed) : -1;
    if (i >= 0) {
      this.play(false);
      this.select(i);
    }
  }

  key(event) {
    const step = 60, moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    const does = { "+": "in", "=": "in", "-": "out", 0: "fit", " ": "play", f: "follow" };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) this.pan(...moves[event.key]);
    else if (event.key === "," || event.key === ".") this.select(this.at + (event.key === "." ? 1 : -1));
    else if (does[event.key]) this.do(does[event.key]);
    else return;
    event.preventDefault();
  }
}

// Helpers -------------------------------------------------------------------------------------------------------------

function pathOfRoads(lines) {
  const path = new Path2D();
  for (const steps of lines) {
    let x = 0, y = 0;
    for (let i = 0; i < steps.length; i += 2) {
      x += steps[i] / 10;
      y += steps[i + 1] / 10;
      if (i) path.lineTo(x, y);
      else path.moveTo(x, y);
    }
  }
  return path;
}

// Runs [start, end) of the numbers below count that fit; one also ends before a number that does not follow the last.
function runs(count, fits, follows = () => true) {
  const out = [];
  for (let i = 0; i < count; i++) {
    if (!fits(i)) continue;
    if (out.length && out[out.length - 1][1] === i && follows(i)) out[out.length - 1][1] = i + 1;
    else out.push([i, i + 1]);
  }
  return out;
}

function range(values) {
  return values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
}

function readColours(root) {
  const style = getComputedStyle(root), value = (name) => style.getPropertyValue(name).trim();
  return {
    sure: value("--sure"), guess: value("--guess"), search: value("--search"), truth: value("--truth"),
    halo: value("--halo"), ground: value("--ground"), road: value("--road"), mainRoad: value("--main-road"),
    serviceRoad: value("--service-road"), casing: value("--casing"), ink: value("--ink"), line: value("--line"),
    dim: Number(value("--dim")),
  };
}

function element(name, text) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return made;
}

function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds)), two = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(whole / 3600), rest = `${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  return hours ? `${hours}:${rest}` : rest;
}

// The views, whose pictures it shows, come after it in the page.
document.addEventListener("DOMContentLoaded", () => {
  const data = JSON.parse(document.getElementById("map-data").textContent);
  window.trackMap = new TrackMap(document.getElementById("track-map"), data);
});
