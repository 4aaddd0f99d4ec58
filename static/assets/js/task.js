// The page of a task follows the task's progress: every event requests the live part, at most once a second and not
// while the page is hidden. The last event ends the requests.
(function () {
  "use strict";
  const { setOffline, mayAsk } = window.wending;
  const live = () => document.getElementById("live");
  const title = document.title;

  function showTitle(prefix) {
    document.title = prefix ? prefix + " " + title : title;
  }
  if (!live().dataset.progress) return;

  // Repaints the board's squares of questions whose letter has changed; a capital means that runs failed.
  const board = document.getElementById("board");
  const words = board ? JSON.parse(board.dataset.words) : {};
  let painted = live().dataset.board;
  function paint() {
    const states = live().dataset.board;
    if (!board || states === painted) return;
    if (states.length !== board.children.length) return; // questions were added: the next page has them
    [...states].forEach((letter, n) => {
      if (letter === painted[n]) return;
      const low = letter.toLowerCase();
      const square = board.children[n];
      square.className = "b-" + low + (low === letter ? "" : " b-f");
      square.title = n + 1 + " " + words[low] + (low === letter ? "" : " · " + words.F);
    });
    painted = states;
  }
  document.body.addEventListener("htmx:afterSwap", paint);

  const events = new EventSource(live().dataset.progress);
  let waiting = null;
  let last = 0;
  function refresh() {
    waiting = null;
    if (document.visibilityState !== "visible") return;
    if (!mayAsk()) return later();
    last = Date.now();
    document.body.dispatchEvent(new CustomEvent("progress"));
  }
  function later() {
    if (waiting === null) waiting = setTimeout(refresh, Math.max(300, 1000 - (Date.now() - last)));
  }
  events.addEventListener("progress", (event) => {
    setOffline(false);
    const state = JSON.parse(event.data);
    if (state.total > 0 && state.status === "RUNNING") showTitle(Math.floor((100 * state.completed) / state.total) + "%");
    later();
  });
  events.addEventListener("error", () => setOffline(true)); // the browser reconnects on its own
  events.addEventListener("open", () => setOffline(false));
  ["completed", "failed", "stopped"].forEach((kind) => events.addEventListener(kind, () => {
    events.close();
    showTitle(kind === "completed" ? "✓" : "■");
    if (wantsNotification()) new Notification(live().dataset.ended, { tag: location.pathname });
    later();
  }));
  // During long calls nothing else changes, so only the list of calls is requested.
  setInterval(() => {
    if (document.visibilityState !== "visible" || !live().dataset.progress || Date.now() - last < 3000 || !mayAsk()) return;
    last = Date.now();
    document.body.dispatchEvent(new CustomEvent("flights"));
  }, 1000);
  document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") later(); });

  // A notification is offered if the browser supports them, and is shown only if it was requested on this page.
  let isWanted = false;
  function wantsNotification() {
    return isWanted && "Notification" in window && Notification.permission === "granted";
  }
  function offerNotification() {
    const button = document.getElementById("notify");
    if (!button || !("Notification" in window) || Notification.permission === "denied") return;
    button.hidden = false;
    if (isWanted) {
      button.disabled = true;
      button.textContent = button.dataset.on;
    }
  }
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#notify")) return;
    Notification.requestPermission().then((permission) => {
      isWanted = permission === "granted";
      offerNotification();
    });
  });
  document.body.addEventListener("htmx:afterSwap", offerNotification);
  offerNotification();
})();
