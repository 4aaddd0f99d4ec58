// A report as one document: filters that need no server, and folds that open for printing. On paper, text that
// answers share is printed only in the most common answer.
(function () {
  "use strict";
  const form = document.querySelector(".query");
  const cards = [...document.querySelectorAll(".result")];
  const count = document.querySelector("[data-count]");
  form.hidden = false;
  function apply() {
    const level = form.elements.level.value;
    const opinion = form.elements.opinion.value;
    const wanted = form.elements.search.value.trim().toLowerCase();
    let shown = 0;
    cards.forEach((card) => {
      const fits = (!level || card.dataset.level === level) && (!opinion || card.dataset.opinion === opinion) && (!wanted || card.textContent.toLowerCase().includes(wanted));
      card.hidden = !fits;
      if (fits) shown += 1;
    });
    count.textContent = shown + " / " + cards.length;
  }
  let typed = 0;
  // delayed, because every input searches all texts
  form.addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(apply, 150); });
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll(".fold:not([open]), .merged > li:first-child .same:not([open])")];
    opened.forEach((fold) => { fold.open = true; });
  });
  window.addEventListener("afterprint", () => opened.forEach((fold) => { fold.open = false; }));
})();
