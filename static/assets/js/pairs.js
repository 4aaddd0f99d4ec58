// Two answers to a question without the names of their variants: compared with the keyboard.
(function () {
  "use strict";
  const mode = document.querySelector(".blind-pair");
  const parts = [...mode.querySelectorAll("[data-keys]")];
  let isLeaving = false; // a second verdict while the page is being left would be refused
  mode.addEventListener("submit", (event) => {
    if (isLeaving) event.preventDefault();
    isLeaving = true;
  });
  window.addEventListener("pageshow", () => { isLeaving = false; });
  document.addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
    if (event.key === "Escape") { location.assign(mode.dataset.leave); return; }
    const part = parts.find((one) => one.dataset.keys.split(" ").includes(event.key));
    if (!part) return;
    event.preventDefault();
    part.click();
  });
})();
