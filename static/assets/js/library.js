// The forms of the library highlight the variables of templates while the user types, and fill in a recognised
// protocol.
(function () {
  "use strict";
  const place = /\{\{\s*([\p{L}\p{M}\p{N}_]+)\s*\}\}/gu;

  function paint(area) {
    const mirror = area.previousElementSibling;
    const rendered = document.getElementById("rendered");
    const known = rendered ? rendered.dataset.names.split(" ") : [];
    const parts = [];
    let last = 0;
    for (const found of area.value.matchAll(place)) {
      parts.push(document.createTextNode(area.value.slice(last, found.index)));
      const mark = document.createElement("mark");
      mark.className = known.includes(found[1]) ? "variable" : "variable is-unknown";
      mark.textContent = found[0];
      parts.push(mark);
      last = found.index + found[0].length;
    }
    parts.push(document.createTextNode(area.value.slice(last) + "\n"));
    mirror.replaceChildren(...parts);
    mirror.scrollTop = area.scrollTop;
  }
  document.querySelectorAll("[data-toggles]").forEach((list) => {
    list.addEventListener("change", () => { document.getElementById(list.dataset.toggles).hidden = list.value !== ""; });
  });
  document.querySelectorAll("[data-placeholders]").forEach((field) => {
    const examples = JSON.parse(field.dataset.placeholders);
    const choice = document.getElementById(field.dataset.placeholderOf);
    const show = () => { field.placeholder = examples[choice.value] || ""; };
    choice.addEventListener("change", show);
    show();
  });
  const areas = [...document.querySelectorAll("[data-template]")];
  for (const area of areas) {
    area.addEventListener("input", () => paint(area));
    area.addEventListener("scroll", () => { area.previousElementSibling.scrollTop = area.scrollTop; });
    paint(area);
  }
  document.body.addEventListener("htmx:afterSwap", () => areas.forEach(paint));

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-set-field]");
    if (!button) return;
    const field = document.getElementById(button.dataset.setField);
    field.value = button.dataset.value;
    field.dispatchEvent(new Event("change", { bubbles: true }));
    field.focus();
  });
})();
