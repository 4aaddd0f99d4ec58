// Moves answers between groups of the same meaning: by dragging, with keys, or with the list next to each answer.
(function () {
  "use strict";
  const form = document.querySelector(".regroup");
  if (!form) return;
  const groups = [...form.querySelectorAll("[data-group]")];
  const answers = () => [...form.querySelectorAll("[data-answer]")];
  const choiceOf = (answer) => answer.querySelector("select");

  function move(answer, group) {
    choiceOf(answer).value = group.dataset.group;
    group.querySelector("ul").append(answer);
  }
  form.addEventListener("change", (event) => {
    const answer = event.target.closest("[data-answer]");
    if (!answer || event.target !== choiceOf(answer)) return;
    move(answer, groups.find((group) => group.dataset.group === event.target.value));
    event.target.focus({ preventScroll: true });
  });

  // Only the handle can be dragged, so that the text of an answer can still be selected.
  let dragged = null;
  const groupAt = (event) => event.target.closest("[data-group]");
  form.addEventListener("dragstart", (event) => {
    if (!event.target.matches(".regroup-handle")) return;
    dragged = event.target.closest("[data-answer]");
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", dragged.dataset.answer);
    event.dataTransfer.setDragImage(dragged, 12, 12);
  });
  form.addEventListener("dragover", (event) => {
    const group = dragged && groupAt(event);
    if (!group) return;
    event.preventDefault();
    groups.forEach((one) => one.classList.toggle("is-target", one === group));
  });
  form.addEventListener("drop", (event) => {
    const group = dragged && groupAt(event);
    if (!group) return;
    event.preventDefault();
    move(dragged, group);
  });
  form.addEventListener("dragend", () => {
    groups.forEach((one) => one.classList.remove("is-target"));
    dragged = null;
  });

  // j and k step from answer to answer; the letter of a group moves the focused answer into it.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { form.requestSubmit(); return; }
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
    const all = answers();
    const here = all.indexOf(document.activeElement.closest("[data-answer]"));
    const by = { j: 1, k: -1 }[event.key];
    const isShifted = event.shiftKey;
    if (by && !isShifted) {
      event.preventDefault();
      all[Math.max(0, Math.min(all.length - 1, here + by))].focus();
      return;
    }
    const group = isShifted && groups.find((one) => one.dataset.key === event.key.toLowerCase());
    if (!group || here < 0) return;
    event.preventDefault();
    move(all[here], group);
    all[here].focus();
  });
})();
