// The list of tasks: ticks for a comparison, and rows that follow the tasks. One request fetches all rows: every second
// while they change, less and less often while they do not, but at least every ten seconds. The server answers 204 if
// they are unchanged.
(function () {
  "use strict";
  const least = 1000;
  const most = 10000;
  let wait = least;
  let timer = null;

  function again() {
    clearTimeout(timer);
    timer = setTimeout(ask, wait);
  }
  function ask() {
    if (document.getElementById("rows") && window.wending.mayAsk()) {
      document.body.dispatchEvent(new CustomEvent("rows"));
    } else {
      again();
    }
  }
  document.body.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt.id !== "rows") return;
    // A running task changes often; otherwise only new tasks can appear.
    const slowest = document.querySelector("#rows [data-active]") ? 3000 : most;
    wait = event.detail.xhr.status === 200 ? least : Math.min(slowest, wait * 1.5);
    again();
  });
  // Nothing that is being read moves: rows change in place, and one line announces that there are other rows.
  const news = document.getElementById("rows-news");
  const rowsOf = (part) => [...part.querySelectorAll("tbody > tr[id]")];
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id !== "rows" || !event.detail.shouldSwap) return;
    const arrived = new DOMParser().parseFromString(event.detail.serverResponse, "text/html");
    const here = document.getElementById("rows").cloneNode(true);
    const next = new Map(rowsOf(arrived).map((row) => [row.id, row]));
    const ids = rowsOf(here).map((row) => row.id);
    if (!ids.length || !news) return;
    const isSame = ids.join() === [...next.keys()].join();
    const count = [...next.keys()].filter((id) => !ids.includes(id)).length;
    news.hidden = isSame;
    news.firstElementChild.textContent = count ? news.dataset.new.replace("%", count) : news.dataset.changed;
    if (isSame) return;
    rowsOf(here).forEach((row) => { if (next.has(row.id)) row.replaceWith(next.get(row.id)); });
    // the next request asks for changes since this response
    here.setAttribute("hx-get", arrived.getElementById("rows").getAttribute("hx-get"));
    event.detail.serverResponse = here.outerHTML;
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") {
      wait = least;
      ask();
    }
  });
  again();

  // Ticks survive the replacement of their rows.
  let ticked = [];
  const comparing = document.getElementById("compare");
  const submit = comparing && comparing.querySelector("button");
  function showTicks() {
    document.querySelectorAll("#rows [name=task]").forEach((box) => { box.checked = ticked.includes(box.value); });
    if (!comparing) return;
    comparing.toggleAttribute("data-shown", ticked.length > 0);
    submit.textContent = ticked.length === 2 ? submit.dataset.two : submit.dataset.one;
  }
  document.addEventListener("change", (event) => {
    if (event.target.name !== "task") return;
    ticked = window.wending.tick(ticked, event.target);
    showTicks();
  });
  // Enter on a tick would send the form, with fewer than two tasks.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.name === "task" && ticked.length < 2) event.preventDefault();
  });
  if (comparing) {
    comparing.querySelector("[data-untick]").addEventListener("click", () => { ticked = []; showTicks(); });
    // browsers restore ticks when they restore a page
    document.querySelectorAll("#rows [name=task]:checked").forEach((box) => { ticked = [...ticked, box.value].slice(-2); });
    showTicks();
  }
  document.body.addEventListener("htmx:afterSwap", showTicks);
})();
