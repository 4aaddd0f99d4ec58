// Calls, live and replayed: every track has the events of one call, and all tracks share one clock.
(function () {
  "use strict";
  const root = document.getElementById("player");
  if (!root) return;
  const { setOffline } = window.wending;
  const words = JSON.parse(root.dataset.words);
  const find = (name) => root.querySelector(`[data-do="${name}"]`);
  const play = find("play"), speed = find("speed"), toLive = find("live");
  const scrub = root.querySelector("input[type=range]");
  const clock = root.querySelector(".clock");
  // seconds is a duration in the unit that suits another one: calls of less than a second are shown in milliseconds.
  const seconds = (ms, of = ms) => of < 1000 ? Math.round(ms) + " ms" : (ms / 1000).toFixed(1) + " s";
  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // A track shows what its call had reported by a given time. Going back starts again from the beginning, because
  // events only add to what is shown.
  class Track {
    constructor(box) {
      this.box = box;
      this.item = Number(box.dataset.item);
      this.events = [];
      this.part = (name) => box.querySelector("." + name);
      this.revealed = 0;
      this.reset();
    }
    reset() {
      this.next = 0;
      this.text = "";
      this.reasoning = "";
      this.message = "";
      this.progress = null;
      this.preview = null;
      this.failure = "";
      this.isOver = false;
      this.spans = new Map(); // stages and tools, in the order in which they began
      this.files = new Map();
    }
    add(event) {
      if (event.type === "task_started") { // the call was repeated, because its worker was lost
        this.events = [];
        this.reset();
      }
      this.events.push(event);
    }
    get end() {
      return this.events.length ? this.events[this.events.length - 1].at_ms : 0;
    }
    show(at) {
      if (this.next > 0 && this.events[this.next - 1].at_ms > at) this.reset();
      const before = this.next;
      while (this.next < this.events.length && this.events[this.next].at_ms <= at) this.take(this.events[this.next++]);
      if (before !== this.next || this.spans.size) this.draw(at);
    }
    take(event) {
      const data = event.data;
      switch (event.type) {
        case "text":
          this.text = data.replaces ? data.text || "" : this.text + (data.text || "");
          break;
        case "reasoning":
          this.reasoning += data.text || "";
          break;
        case "node":
        case "tool":
          this.span(event);
          break;
        case "progress_update":
          if (data.progress !== undefined) this.progress = data.progress;
          if (data.message) this.message = data.message;
          break;
        case "image_preview":
          this.preview = data.asset_id || null;
          break;
        case "asset":
          this.files.set(data.path, data);
          if (data.kind === "image" && this.preview) this.preview = data.asset_id || null; // the picture instead of its preview
          break;
        case "error_occurred":
          this.failure = [data.code, data.message].filter(Boolean).join(": ");
          this.message = words.failed;
          this.progress = null;
          this.finish(event.at_ms, "failed");
          break;
        case "retry":
          this.text = this.reasoning = "";
          this.progress = this.preview = null;
          this.files.clear();
          this.message = words.retry;
          break;
        case "task_completed":
          this.finish(event.at_ms, "completed");
          this.failure = "";
          this.message = words.over;
          this.isOver = true;
          break;
      }
    }
    // span begins or continues a stage or a tool: the one with its id, or the last one with its name that has not
    // ended.
    span(event) {
      const data = event.data;
      let key = event.type + " " + (data.id || data.name);
      const known = this.spans.get(key);
      if (known && known.end !== null && (data.status === "started" || !data.status)) key += " " + event.seq;
      let span = this.spans.get(key);
      if (!span) {
        span = { kind: event.type, name: data.name, start: event.at_ms, end: null, state: "started" };
        this.spans.set(key, span);
      }
      if (data.status) span.state = data.status;
      if (data.status === "completed" || data.status === "failed") span.end = event.at_ms;
      if (data.progress !== undefined) this.progress = data.progress;
      if (span.end === null) this.message = data.name;
    }
    finish(at, state) {
      for (const span of this.spans.values()) {
        if (span.end === null) {
          span.end = at;
          span.state = state;
        }
      }
    }
    draw(at) {
      const message = this.message || (this.events.length ? words.waiting : "");
      this.part("message").textContent = this.part("message").title = message;
      this.part("doing").querySelector(".count").textContent = this.progress === null ? "" : Math.round(this.progress) + "%";
      const bar = this.box.querySelector("progress");
      bar.classList.toggle("is-unknown", this.progress === null);
      bar.value = this.progress || 0;
      follow(this.part("said"), this.text);
      this.reveal("thinking", this.reasoning);
      write(this.part("thinking").querySelector("pre"), this.reasoning);
      this.reveal("failed", this.failure);
      this.part("failed").textContent = this.failure;
      this.drawPreview();
      this.drawFiles();
      this.drawSpans(at);
    }
    // reveal shows a part once it has content. While a call is under way, new parts appear below existing ones, and
    // keep their space: nothing that is being read moves.
    reveal(name, isFilled) {
      const part = this.part(name);
      if (isFilled && part.hidden) {
        part.hidden = false;
        if (root.dataset.live) part.style.order = ++this.revealed;
      }
      part.classList.toggle("is-unfilled", !isFilled);
    }
    // reserve keeps the space that each part will have at the end, so that nothing moves during a replay.
    reserve() {
      for (const name of ["stages", "preview", "made", "said", "failed"]) this.part(name).style.minHeight = this.part(name).offsetHeight + "px";
    }
    drawPreview() {
      this.reveal("preview", this.preview);
      if (this.preview) fill(this.part("preview"), this.preview, [exhibit(this.preview, "")]);
    }
    drawFiles() {
      const list = this.part("made");
      const shown = Array.from(this.files.values(), (file) => [file, exhibit(file.asset_id, file.path)]);
      const key = shown.map(([file, figure]) => file.path + " " + figure.className).join("\n");
      fill(list, key, shown.map(([file, figure]) => {
        const entry = element("li");
        entry.append(figure, element("span", "quiet", file.path));
        return entry;
      }));
    }
    // drawSpans draws the waterfall: each stage and tool as a bar on the common clock.
    drawSpans(at) {
      const box = this.part("stages");
      this.reveal("stages", this.spans.size > 0);
      const whole = Math.max(duration(), 1);
      const spans = Array.from(this.spans.values());
      while (box.childElementCount > spans.length) box.lastElementChild.remove();
      spans.forEach((span, n) => {
        let row = box.children[n];
        if (!row) {
          row = element("div", "stage");
          row.append(element("span", "name"), element("span", "lane"), element("span", "count"));
          row.children[1].append(element("i"));
          box.append(row);
        }
        const end = span.end === null ? at : span.end;
        row.className = `stage is-${span.kind} is-${span.end === null ? "open" : span.state}`;
        row.children[0].textContent = row.title = span.name;
        const bar = row.children[1].firstElementChild;
        const from = Math.min((100 * span.start) / whole, 99.5);
        const to = Math.max((100 * end) / whole, from + 0.5);
        bar.style.clipPath = `inset(0 ${100 - to}% 0 ${from}% round 2px)`; // the bar changes without a new layout
        row.children[2].textContent = seconds(end - span.start) + (span.state === "failed" ? " ✕" : "");
      });
    }
  }

  // write only adds what is new, so that a long text is not laid out again with each piece.
  function write(box, text) {
    const shown = box.textContent;
    if (shown === text) return;
    if (box.firstChild && text.startsWith(shown)) box.firstChild.appendData(text.slice(shown.length));
    else box.textContent = text;
  }

  // follow writes into a part that scrolls. The part stays at its end while it grows, until the user scrolls away
  // from there.
  function follow(box, text) {
    const isAtEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 40;
    write(box, text);
    if (isAtEnd && (isLive || isPlaying)) box.scrollTop = box.scrollHeight;
  }

  // fill replaces the content of a part if it has changed.
  function fill(part, key, shown) {
    if (part.dataset.shown === key) return;
    part.dataset.shown = key;
    part.replaceChildren(...shown);
  }
  // exhibit shows a file in the form that the server provides: an image, a player, a link, or the reason why there is
  // none. While the file is being copied, exhibit polls the server for it.
  let asking = null;
  let askAfter = 1000;
  function exhibit(id, path) {
    const known = id && root.querySelector(`[data-asset="${id}"]`);
    if (id && (!known || "waiting" in known.dataset) && asking === null) {
      asking = setTimeout(() => {
        asking = null;
        askAfter = Math.min(2 * askAfter, 10000);
        root.querySelectorAll(".reported").forEach((reported) => reported.dispatchEvent(new CustomEvent("files")));
      }, askAfter);
    }
    if (known) return known.firstElementChild.cloneNode(true);
    return element("span", "exhibit is-waiting", id ? words.copying : path);
  }
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (!event.target.matches(".reported")) return;
    tracks.forEach((track) => { delete track.part("preview").dataset.shown; track.draw(position); });
  });

  const tracks = Array.from(root.querySelectorAll(".track"), (box) => new Track(box));
  let position = 0, isPlaying = false, isLive = Boolean(root.dataset.live), lastFrame = 0, liveSince = 0;
  function duration() {
    return Math.max(0, ...tracks.map((track) => track.end), isLive || root.dataset.live ? liveNow() : 0);
  }
  // liveNow is the call's age: the time of its last event plus the time since that event arrived.
  function liveNow() {
    return liveSince ? performance.now() - liveSince : 0;
  }
  function show() {
    for (const track of tracks) track.show(position);
    scrub.max = Math.ceil(duration());
    scrub.value = position;
    scrub.setAttribute("aria-valuetext", seconds(position, duration()));
    clock.textContent = seconds(position, duration()) + " / " + seconds(duration());
    play.textContent = isPlaying || isLive ? words.pause : position >= duration() && duration() > 0 ? words.again : words.play;
    if (toLive) toLive.hidden = isLive;
    root.dataset.position = Math.round(position);
  }
  function seek(to) {
    isLive = false;
    position = Math.min(Math.max(to, 0), duration());
    show();
  }
  // seekLinked goes to the time in the address or, if it contains none, to the given time.
  function seekLinked(otherwise) {
    const at = /^#at=(\d+)$/.exec(location.hash);
    seek(at ? Number(at[1]) : otherwise);
  }
  window.addEventListener("hashchange", () => { if (!isLive && !isPlaying) seekLinked(position); });
  function frame(now) {
    const passed = lastFrame ? now - lastFrame : 0;
    lastFrame = now;
    if (isLive) {
      position = duration();
      show();
    } else if (isPlaying) {
      position += passed * Number(speed.value);
      if (position >= duration()) {
        position = duration();
        isPlaying = false;
      }
      show();
    }
    if (isLive || isPlaying) requestAnimationFrame(frame);
    else lastFrame = 0;
  }
  function start() {
    lastFrame = 0;
    requestAnimationFrame(frame);
  }
  function toggle() {
    if (isLive) isLive = false;
    else if (isPlaying) isPlaying = false;
    else {
      if (position >= duration()) position = 0;
      isPlaying = true;
      start();
    }
    show();
  }
  // step goes to the next or previous time at which something happened in any track.
  function step(direction) {
    isPlaying = false;
    let next = direction > 0 ? duration() : 0;
    for (const track of tracks) {
      for (const { at_ms: at } of track.events) {
        if (direction > 0 ? at > position && at < next : at < position && at > next) next = at;
      }
    }
    seek(next);
  }
  play.addEventListener("click", toggle);
  find("back").addEventListener("click", () => step(-1));
  find("next").addEventListener("click", () => step(1));
  scrub.addEventListener("input", () => seek(Number(scrub.value)));
  let isOver = false;
  if (toLive) toLive.addEventListener("click", () => {
    if (isOver) {
      location.reload();
      return;
    }
    isLive = true;
    isPlaying = false;
    start();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=range]), textarea, select")) return;
    const isButton = event.target.matches("button, a, summary");
    const speeds = { 1: 0, 2: 1, 3: 2, 4: 3, 5: 4 };
    if (event.key === " " && !isButton) toggle();
    else if (event.key === "ArrowLeft") step(-1);
    else if (event.key === "ArrowRight") step(1);
    else if (event.key === "Home") seek(0);
    else if (event.key === "End") seek(duration());
    else if (event.key in speeds) speed.selectedIndex = speeds[event.key];
    else return;
    event.preventDefault();
  });

  // The events of finished calls are read immediately; those of a running call are read as they happen.
  const reading = tracks.filter((track) => track.box.dataset.events).map((track) => fetch(track.box.dataset.events)
    .then((answer) => (answer.ok ? answer.json() : Promise.reject()))
    .then((answer) => answer.items.forEach((event) => track.add(event)))
    .catch(() => setOffline(true)));
  Promise.all(reading).then(() => {
    if (!isLive) {
      seekLinked(duration());
      tracks.forEach((track) => track.reserve());
    }
    root.classList.add("is-ready");
  });
  if (!isLive) return;

  const types = ["task_started", "text", "reasoning", "node", "tool", "progress_update", "image_preview", "asset", "error_occurred", "retry", "task_completed", "other"];
  const source = new EventSource(root.dataset.live);
  let telling = null;
  function tell() { // requests new lines of the log, which the server renders
    if (telling === null) telling = setTimeout(() => {
      telling = null;
      document.body.dispatchEvent(new CustomEvent("events"));
    }, 2000);
  }
  types.forEach((type) => source.addEventListener(type, (message) => {
    setOffline(false);
    const event = JSON.parse(message.data);
    const track = tracks.find((one) => one.item === event.item_id);
    if (!track) { // the next turn of a conversation
      location.reload();
      return;
    }
    if (track.box.dataset.events) return; // the event is for a turn that is over
    track.add(event);
    if (!liveSince || performance.now() - liveSince < event.at_ms || event.type === "task_started") liveSince = performance.now() - event.at_ms;
    if (isLive && lastFrame === 0) start();
    tell();
  }));
  source.addEventListener("end", () => {
    source.close();
    delete root.dataset.live;
    if (isLive) location.reload();
    else if (toLive) { // do not disturb a user who is looking back: the button leads to the run
      toLive.textContent = words.over;
      isOver = true;
    }
  });
  source.addEventListener("error", () => setOffline(true)); // the browser reconnects on its own
  source.addEventListener("open", () => {
    setOffline(false);
    tell();
  });
  // A piece that did not arrive is requested again.
  ["htmx:sendError", "htmx:responseError"].forEach((name) => document.body.addEventListener(name, (event) => {
    if (event.detail.elt.id === "log-tail") tell();
  }));

  // A growing log keeps only its first and last lines, and stays scrolled to its end until the user scrolls away from
  // there.
  const seen = document.querySelector(".log.is-followed .seen"), list = seen.querySelector(".lines");
  let isAtEnd = true;
  seen.addEventListener("scroll", () => { isAtEnd = seen.scrollTop + seen.clientHeight >= seen.scrollHeight - 40; });
  function keep() {
    const { most, left } = document.getElementById("log-tail").dataset;
    const lines = list.querySelectorAll("li:not(.left)"), half = most / 2;
    if (lines.length > most) {
      for (let n = half; n < lines.length - half; n++) lines[n].remove();
      let gap = list.querySelector(".left");
      if (!gap) {
        gap = element("li", "quiet left");
        gap.append(element("span"), element("span"), element("span"));
        lines[half - 1].after(gap);
      }
      gap.lastChild.textContent = left;
    }
    if (isAtEnd) seen.scrollTop = seen.scrollHeight;
  }
  new MutationObserver(keep).observe(list, { childList: true });
  keep();
})();
