// The report of a task: keys, the reader's place, and folds that do not move what is being read.
(function () {
  "use strict";
  const { toast } = window.wending;
  const cards = () => [...document.querySelectorAll(".result")];
  const help = document.getElementById("help");
  const bar = document.querySelector(".report-bar");
  const map = document.querySelector(".map");
  const mode = document.querySelector(".review-mode");
  const isStill = window.matchMedia("(prefers-reduced-motion: reduce)").matches;

  // The height at which the bar covers cards once it sticks to the top of the window.
  function barBottom() {
    return getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0;
  }
  // The question being read: the first one that has not been scrolled away under the bar.
  function current() {
    const edge = barBottom() + 40;
    const all = cards();
    return all.find((card) => card.getBoundingClientRect().bottom > edge) || all[all.length - 1];
  }
  // The question that keys led to last, and how far the page is scrolled for it. The last questions of a page cannot be
  // scrolled to its top; while the page stands where the keys left it, keys act on the question that they led to.
  let target = -1;
  let targetY = NaN;
  let targetUntil = 0; // until then, the page may still be scrolling
  const isLed = () => Date.now() < targetUntil || Math.abs(window.scrollY - targetY) < 2;
  function show(card) {
    const top = card.getBoundingClientRect().top - barBottom() - 12;
    const isNear = Math.abs(top) <= window.innerHeight; // nobody can follow a scroll of more than a screen
    target = cards().indexOf(card);
    targetY = Math.max(0, Math.min(window.scrollY + top, document.documentElement.scrollHeight - window.innerHeight));
    window.scrollBy({ top, behavior: isNear && !isStill ? "smooth" : "instant" });
    card.focus({ preventScroll: true });
  }
  function step(by) {
    const all = cards();
    if (!all.length) return;
    let at = isLed() ? target : all.indexOf(current());
    const ahead = all[at].getBoundingClientRect().top - barBottom();
    if (isLed()) at += by;
    else if (by < 0 && ahead >= -40) at += by; // from the middle of a long question, back to its beginning first
    else if (by > 0 && ahead < 40) at += by; // from above the first question, to that one first
    if (at >= all.length) return turn("next", "#first");
    if (at < 0) return turn("prev", "#last");
    targetUntil = Date.now() + 600;
    show(all[at]);
  }
  // A square leads to its answer, which opens if the card shows only one line of it.
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".strip > a[href^='#']");
    const answer = link && document.getElementById(link.hash.slice(1));
    if (!answer) return;
    const fold = link.closest(".result").querySelector(`details[data-answer="${CSS.escape(link.textContent)}"]`) || answer.querySelector(":scope > details");
    if (!fold) return;
    event.preventDefault();
    fold.open = true;
    fold.scrollIntoView({ block: "nearest" });
    fold.querySelector("summary").focus({ preventScroll: true });
  });
  // The next page begins at its first question, the previous one at its last.
  function turn(rel, hash) {
    const link = document.querySelector(`.pager a[rel=${rel}]`);
    if (link) location.href = link.href + hash;
  }
  const atLoad = cards();
  if (location.hash === "#last" && atLoad.length) window.addEventListener("load", () => show(atLoad[atLoad.length - 1]));
  if (location.hash === "#first" && atLoad.length) atLoad[0].focus({ preventScroll: true });

  // The bar and the map show the reader's position. The squares of the map are loaded when they are needed.
  const sheet = map && map.querySelector(".map-sheet");
  // The cards' positions; a card that replaces another one lacks its position.
  const places = new Map(atLoad.map((card) => [card.id, card.dataset.place]));
  let squares = [];
  let inOrder = [];
  let arriving = null;
  const squareOf = (card) => card && squares.find((square) => square.hash === "#" + card.id);
  function showPlace() {
    const card = current();
    if (!card) return;
    map.querySelector("summary [data-place]").textContent = places.get(card.id) || "–";
    const here = squareOf(card);
    squares.forEach((one) => { if (one === here) one.setAttribute("aria-current", "true"); else one.removeAttribute("aria-current"); });
  }
  function withSquares(act) {
    if (!sheet) return;
    arriving = arriving || new Promise((resolve) => {
      sheet.addEventListener("htmx:afterRequest", () => {
        squares = [...sheet.querySelectorAll(".squares a")];
        inOrder = squares.filter((square) => square.dataset.place).sort((a, b) => a.dataset.place - b.dataset.place);
        if (!squares.length) arriving = null; // the next call requests them again
        showPlace();
        resolve();
      }, { once: true });
      sheet.dispatchEvent(new CustomEvent("map"));
    });
    arriving.then(act);
  }
  if (map) {
    let isAsked = false;
    window.addEventListener("scroll", () => {
      if (isAsked) return;
      isAsked = true;
      requestAnimationFrame(() => { isAsked = false; showPlace(); });
    }, { passive: true });
    showPlace();
    map.addEventListener("toggle", () => {
      if (!map.open) return;
      withSquares(() => {
        const here = map.querySelector("[aria-current]");
        if (here) here.scrollIntoView({ block: "center", behavior: "instant" });
      });
    });
    document.addEventListener("click", (event) => { if (map.open && !map.contains(event.target)) map.open = false; });
  }
  const picture = document.querySelector(".fingerprint > svg");
  if (picture) picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    const numbers = picture.dataset.numbers.split(",");
    const at = Math.floor((event.clientX - box.left) / box.width * numbers.length);
    location.assign(picture.dataset.results + "/" + numbers[Math.max(0, Math.min(numbers.length - 1, at))]);
  });

  // Opens or closes folds without moving the card that is being read.
  function toggle(folds, anchor) {
    const top = anchor.getBoundingClientRect().top;
    const open = [...folds].some((fold) => !fold.open);
    folds.forEach((fold) => { fold.open = open; });
    window.scrollBy({ top: anchor.getBoundingClientRect().top - top, behavior: "instant" });
  }
  // Leads to the next question of a kind, on any page of the report: the map has all its questions.
  function seek(by, kind) {
    withSquares(() => {
      const here = inOrder.indexOf(squareOf(current()));
      for (let at = here + by; at >= 0 && at < inOrder.length; at += by) {
        if (inOrder[at].matches(kind)) return follow(inOrder[at]);
      }
    });
  }
  function follow(square) {
    const card = square && document.getElementById(square.hash.slice(1));
    if (card) show(card);
    else if (square) location.assign(square.href);
  }
  const unstable = ".is-format_only, .is-facts, .is-wording, .is-different";
  let lastKey = "";
  // What is marked: important differences, all differences, or nothing.
  const marks = ["", "all-differences", "without-differences"];
  function nextMarks() {
    const root = document.documentElement.classList;
    const now = marks.findIndex((one) => one && root.contains(one));
    if (now > 0) root.remove(marks[now]);
    const next = marks[(Math.max(now, 0) + 1) % marks.length];
    if (next) root.add(next);
    toast(help.dataset["marks" + (Math.max(now, 0) + 1) % marks.length], false);
  }
  function copyLink() {
    const link = current().querySelector("h2 > a");
    if (navigator.clipboard) navigator.clipboard.writeText(link.href).then(() => toast(link.dataset.copied, false));
  }
  function switchTo(other) {
    if (other) location.assign(other.href + (!mode && current() ? "#" + current().id : ""));
  }
  // Leads to the next place where facts differ, on the next page if there is none on this one.
  function seekFact(by) {
    const all = [...document.querySelectorAll(".is-fact:is(.unit, .aligned)")].filter((one) => one.offsetParent);
    const edge = barBottom() + 12;
    const here = all.findIndex((one) => one.matches(":target"));
    const at = here >= 0 ? here + by : by > 0 ? all.findIndex((one) => one.getBoundingClientRect().top >= edge) : all.findLastIndex((one) => one.getBoundingClientRect().top < edge);
    if (all[at]) location.replace("#" + all[at].id);
    else if (!mode) turn(by > 0 ? "next" : "prev", by > 0 ? "#first" : "#last");
  }
  const withCard = (act) => () => { const card = (isLed() && cards()[target]) || current(); if (card) act(card); };
  const verdict = (name) => withCard((card) => window.wending.giveVerdict(card, name));
  const keys = {
    1: verdict("PASS"), 2: verdict("FAIL"), 3: verdict("UNSURE"),
    r: withCard((card) => window.wending.openNote(card)),
    n: () => seek(1, unstable),
    p: () => seek(-1, unstable),
    f: () => seek(1, ".is-failed"),
    g: () => lastKey === "g" && withSquares(() => follow(inOrder[0])),
    G: () => withSquares(() => follow(inOrder[inOrder.length - 1])),
    d: nextMarks,
    c: withCard(copyLink),
    j: () => step(1),
    k: () => step(-1),
    e: withCard((card) => toggle(card.querySelectorAll(".fold, .same, .unit-fold"), card)),
    E: withCard((card) => toggle(document.querySelectorAll(".result :is(.fold, .same, .unit-fold)"), card)),
    v: () => switchTo(document.querySelector("[data-view]:not([aria-current])")),
    a: () => switchTo(document.querySelector("[data-align]:not([aria-current])")),
    x: () => seekFact(1),
    X: () => seekFact(-1),
    m: () => switchTo(document.querySelector("[data-by]:not([aria-current])")),
    M: withCard((card) => { const link = card.querySelector("[data-regroup]"); if (link) location.assign(link.href); }),
    t: () => switchTo(document.querySelector("[data-shown-as]:not([aria-current])")),
    R: () => { const link = document.querySelector("[data-review-mode]"); if (link) location.assign(link.href); },
    "/": () => { const search = document.getElementById("search"); if (search) search.focus(); },
    "?": () => help.showModal(),
  };
  if (mode) Object.assign(keys, window.wending.judgingKeys);
  document.querySelector("[data-help]").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && map && map.open) { map.open = false; return; }
    const isScroll = event.key === "j" || event.key === "k";
    if ((event.repeat && !isScroll) || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    lastKey = event.key;
  });

  // Occurrences of the search text are marked without changing any text; folds that hide them are opened.
  const search = document.getElementById("search");
  const wanted = search ? search.defaultValue.trim().toLowerCase() : "";
  function rangesIn(part) {
    const ranges = [];
    const nodes = [];
    let whole = "";
    // struck-out text belongs to another answer
    const isOwn = (node) => (node.parentElement.closest("del") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT, isOwn);
    while (walker.nextNode()) {
      nodes.push([whole.length, walker.currentNode]);
      whole += walker.currentNode.data.toLowerCase();
    }
    const nodeAt = (place) => nodes.findLast(([start]) => start <= place);
    for (let at = whole.indexOf(wanted); at >= 0; at = whole.indexOf(wanted, at + wanted.length)) {
      const [from, first] = nodeAt(at);
      const [to, last] = nodeAt(at + wanted.length - 1);
      const range = new Range();
      range.setStart(first, Math.min(at - from, first.data.length));
      range.setEnd(last, Math.min(at + wanted.length - to, last.data.length));
      ranges.push(range);
    }
    return ranges;
  }
  if (wanted && window.CSS && CSS.highlights) {
    const hits = [];
    document.querySelectorAll(".result .text, .result .formatted").forEach((part) => {
      const found = rangesIn(part);
      hits.push(...found);
      const fold = found.length > 0 && part.parentElement.closest("details.fold:not([open])");
      if (fold && !rangesIn(fold.querySelector("summary")).length) fold.open = true;
      found.forEach((range) => {
        const same = range.startContainer.parentElement.closest("details:is(.same, .unit-fold)");
        if (same && !range.startContainer.parentElement.closest("summary")) same.open = true;
      });
    });
    CSS.highlights.set("hit", new Highlight(...hits));
  }
})();
