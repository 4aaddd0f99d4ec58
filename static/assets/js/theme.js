// Runs before the page is drawn: what needs scripts has its place from the first moment, and without a chosen theme, the
// system's is followed.
(function () {
  var root = document.documentElement;
  root.classList.add("scripted");
  var system = window.matchMedia("(prefers-color-scheme: dark)");
  function follow() {
    if (!root.dataset.theme) root.classList.toggle("dark", system.matches);
  }
  follow();
  system.addEventListener("change", follow);
})();
