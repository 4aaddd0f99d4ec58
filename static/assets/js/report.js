// The report of a task: keys, folds that do not move what is read, and exports that say how they end.
(function () {
  "use strict";
  const { toast } = window.wending;
  const cards = [...document.querySelectorAll(".result")];
  const help = document.getElementById("help");
  const head = document.querySelector(".report-head");
  const map = document.querySelector(".map");
  const isStill = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (window.innerWidth < 1360 && window.innerWidth > 1000) map.open = false; // a rail leaves the answers their room

  // Where cards begin to be covered by the head once it sticks to the top of the window.
  function headBottom() {
    return getComputedStyle(head).position === "sticky" ? head.offsetHeight : 0;
  }
  // The question being read: the first one that is not scrolled away under the head.
  function current() {
    const edge = headBottom() + 40;
    const at = cards.findIndex((card) => card.getBoundingClientRect().bottom > edge);
    return at < 0 ? cards.length - 1 : at;
  }
  function isAtTop(card) {
    return Math.abs(card.getBoundingClientRect().top - headBottom()) < 40;
  }
  function show(card) {
    window.scrollBy({ top: card.getBoundingClientRect().top - headBottom() - 12, behavior: isStill ? "instant" : "smooth" });
    card.focus({ preventScroll: true });
  }
  let target = -1; // where a smooth scroll leads; keys pressed until then count from there
  let targetUntil = 0;
  function step(by) {
    let at = Date.now() < targetUntil ? target : current();
    // Back from the middle of a long question leads to its beginning first.
    if (!(by < 0 && Date.now() >= targetUntil && cards[at] && cards[at].getBoundingClientRect().top < headBottom() - 40)) at += by;
    else if (isAtTop(cards[at])) at += by;
    if (at >= cards.length) return turn("next", "#first");
    if (at < 0) return turn("prev", "#last");
    target = at;
    targetUntil = Date.now() + 600;
    show(cards[at]);
  }
  // The next page begins at its first question, the previous one at its last.
  function turn(rel, hash) {
    const link = document.querySelector(`.pager a[rel=${rel}]`);
    if (link) location.href = link.href + hash;
  }
  if (location.hash === "#last" && cards.length) window.addEventListener("load", () => show(cards[cards.length - 1]));
  if (location.hash === "#first" && cards.length) cards[0].focus({ preventScroll: true });

  // Opens or closes folds and keeps the card that is read where it is.
  function toggle(folds, anchor) {
    const top = anchor.getBoundingClientRect().top;
    const open = [...folds].some((fold) => !fold.open);
    folds.forEach((fold) => { fold.open = open; });
    window.scrollBy({ top: anchor.getBoundingClientRect().top - top, behavior: "instant" }); // the style library scrolls smoothly
  }
  // Leads to the next question of a kind, regardless of its page: the map has them all.
  function seek(by, kind) {
    const squares = [...map.querySelectorAll(".squares a")];
    const here = squares.findIndex((square) => cards.length && square.hash === "#" + cards[current()].id);
    for (let at = here + by; at >= 0 && at < squares.length; at += by) {
      if (squares[at].matches(kind)) return follow(squares[at]);
    }
  }
  function follow(square) {
    const card = square && document.getElementById(square.hash.slice(1));
    if (card) show(card);
    else if (square) location.assign(square.href);
  }
  const unstable = ".is-format_only, .is-wording, .is-different";
  let lastKey = "";
  function copyLink() {
    const link = cards[current()].querySelector("h2 > a");
    if (navigator.clipboard) navigator.clipboard.writeText(link.href).then(() => toast(link.dataset.copied, false));
  }
  const verdict = (name) => () => cards.length && window.wending.giveVerdict(cards[current()], name);
  const keys = {
    1: verdict("PASS"), 2: verdict("FAIL"), 3: verdict("UNSURE"),
    n: () => seek(1, unstable),
    p: () => seek(-1, unstable),
    f: () => seek(1, ".is-failed"),
    g: () => lastKey === "g" && follow(map.querySelector(".squares a")),
    G: () => follow(map.querySelector(".squares a:last-child")),
    d: () => document.documentElement.classList.toggle("without-differences"),
    c: () => cards.length && copyLink(),
    j: () => step(1),
    k: () => step(-1),
    e: () => cards.length && toggle(cards[current()].querySelectorAll(".fold"), cards[current()]),
    E: () => cards.length && toggle(document.querySelectorAll(".fold"), cards[current()]),
    v: () => location.assign(document.querySelector("[data-view]:not([aria-current])").href + (cards.length ? "#" + cards[current()].id : "")),
    "/": () => document.getElementById("search").focus(),
    "?": () => help.showModal(),
  };
  document.querySelector("[data-help]").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    lastKey = event.key;
  });

  // An export is fetched, so that its button can show that it is being written and what came of it.
  document.querySelectorAll("[data-export]").forEach((link) => {
    const label = link.querySelector("span");
    const words = label.textContent;
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      if (link.getAttribute("aria-busy") === "true") return;
      link.setAttribute("aria-busy", "true");
      label.textContent = link.dataset.busy;
      try {
        const response = await fetch(link.href);
        if (!response.ok) {
          const known = { 404: link.dataset.missing, 409: link.dataset.unfinished }[response.status];
          const busy = response.status === 503 && (await response.json()).message;
          toast(known || busy || link.dataset.failed, true);
          return;
        }
        const encoded = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("Content-Disposition") || "");
        let content;
        try {
          content = await response.blob();
        } catch { // it broke off on the way
          toast(link.dataset.failed, true);
          return;
        }
        const address = URL.createObjectURL(content);
        const anchor = document.createElement("a");
        anchor.href = address;
        anchor.download = encoded ? decodeURIComponent(encoded[1]) : "report";
        anchor.click();
        setTimeout(() => URL.revokeObjectURL(address), 60000);
        toast(link.dataset.done, false);
      } catch { // no answer at all
        toast(document.body.dataset.networkError, true);
      } finally {
        link.removeAttribute("aria-busy");
        label.textContent = words;
      }
    });
  });
})();
