// Runs before the page is drawn: space for elements that need scripts is reserved from the beginning, and unless a
// theme was chosen, the system's is used.
(function () {
  var root = document.documentElement;
  root.classList.add("scripted");
  window.addEventListener("load", function () { root.classList.add("is-loaded"); });
  var system = window.matchMedia("(prefers-color-scheme: dark)");
  function follow() {
    if (!root.dataset.theme) root.classList.toggle("dark", system.matches);
  }
  follow();
  system.addEventListener("change", follow);
})();
