// The list of tasks asks for all its rows at once, every second while they change, and up to every ten seconds while
// they do not. The server answers 204 if they are as they were.
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
    if (document.visibilityState === "visible" && document.getElementById("rows")) {
      document.body.dispatchEvent(new CustomEvent("rows"));
    } else {
      again();
    }
  }
  document.body.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt.id !== "rows") return;
    // A running task changes often; without one only new tasks can appear.
    const slowest = document.querySelector("#rows [data-active]") ? 3000 : most;
    wait = event.detail.xhr.status === 200 ? least : Math.min(slowest, wait * 1.5);
    again();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") {
      wait = least;
      ask();
    }
  });
  again();
})();
