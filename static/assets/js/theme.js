// Runs before the page is drawn: without a chosen theme, the system's is followed.
(function () {
  var root = document.documentElement;
  var system = window.matchMedia("(prefers-color-scheme: dark)");
  function follow() {
    if (!root.dataset.theme) root.classList.toggle("dark", system.matches);
  }
  follow();
  system.addEventListener("change", follow);
})();
