// Review mode: one question at a time, judged with the keyboard. Storing verdicts is the job of review.js.
(function () {
  "use strict";
  const mode = document.querySelector(".review-mode");
  const card = mode.querySelector(".judging");
  const bar = card.querySelector(".judging-bar");
  const places = [...bar.querySelectorAll("[data-judge]")];
  const { save, toggleReason, ratingsPart, openNoteOf, undo, isPlaceJudged } = window.wending;

  // If there are several variants, one is judged at a time: the first one without a verdict.
  let place = places.find((one) => !isPlaceJudged(one)) || places[0];
  function showVariant() {
    if (places.length < 2) return;
    card.querySelectorAll("[data-of-variant]").forEach((part) => { part.hidden = part.dataset.ofVariant !== place.dataset.variant; });
    card.querySelectorAll("details.variant").forEach((answers) => {
      const isJudged = answers.dataset.variant === place.dataset.variant;
      answers.classList.toggle("is-judged", isJudged);
      if (!isJudged) return;
      answers.open = true;
      if (answers.getBoundingClientRect().bottom > bar.getBoundingClientRect().top) answers.scrollIntoView({ block: "center", behavior: "instant" });
    });
  }
  showVariant();
  card.addEventListener("click", (event) => {
    const answers = event.target.closest("details.variant");
    const chosen = answers && places.find((one) => one.dataset.variant === answers.dataset.variant);
    if (!chosen || chosen === place) return;
    place = chosen;
    showVariant();
  });

  const choose = (by) => () => {
    if (places.length < 2) return;
    place = places[(places.indexOf(place) + by + places.length) % places.length];
    showVariant();
  };

  let isLeaving = false; // to the next question
  const go = (address) => { if (address) location.assign(address); };
  const judge = (verdict) => () => { if (place && !isLeaving) save(place, verdict, true); };
  document.addEventListener("wending:judged", () => {
    const open = places.find((one) => !isPlaceJudged(one));
    if (open) {
      place = open;
      showVariant();
      return;
    }
    isLeaving = true;
    go(mode.dataset.next);
  });
  window.addEventListener("pageshow", () => { isLeaving = false; });

  // Steps through the places where the answers differ on a fact or, if no facts are marked (as in the side-by-side
  // view), through all differences. A jump unfolds the text that hides the place.
  function differs() {
    const places = [...card.querySelectorAll(".judging-text .is-fact")].filter((part) => !part.querySelector(".is-fact"));
    return places.length ? places : [...card.querySelectorAll(".judging-text ins")];
  }
  let at = -1;
  function jump(by) {
    const all = differs();
    if (!all.length) return;
    at = at < 0 && by < 0 ? all.length - 1 : (at + by + all.length) % all.length;
    card.querySelectorAll(".is-here").forEach((part) => part.classList.remove("is-here"));
    for (let fold = all[at].closest("details:not([open])"); fold; fold = fold.parentElement.closest("details:not([open])")) fold.open = true;
    all[at].classList.add("is-here");
    all[at].scrollIntoView({ block: "center", behavior: "instant" });
  }

  // Places that differ only in wording are unfolded as long as everything still fits into the window.
  const room = () => bar.getBoundingClientRect().top - card.querySelector(".judging-text").getBoundingClientRect().bottom;
  for (const fold of card.querySelectorAll(".judging-text details:has(.unit):not(:has([hx-get]))")) {
    fold.open = true;
    if (room() < 0) fold.open = false;
  }
  card.classList.add("is-laid");

  const reason = (n) => () => {
    const button = place && place.querySelectorAll("[data-reason]")[n];
    if (button) toggleReason(place, button);
  };
  window.wending.judgingKeys = {
    1: judge("PASS"), 2: judge("FAIL"), 3: judge("UNSURE"),
    4: reason(0), 5: reason(1), 6: reason(2), 7: reason(3), 8: reason(4),
    r: () => { if (place) openNoteOf(place); },
    s: () => { // the first dimension without a rating
      const rows = place && ratingsPart(place) ? [...ratingsPart(place).querySelectorAll("[data-dimension]")] : [];
      const open = rows.find((row) => !row.querySelector("[aria-pressed=true]") && !(row.querySelector("input") || {}).value) || rows[0];
      if (open) open.querySelector("button, input").focus();
    },
    u: undo,
    j: () => go(mode.dataset.next),
    k: () => go(mode.dataset.previous),
    x: () => jump(1),
    X: () => jump(-1),
    b: choose(1),
    B: choose(-1),
    Escape: () => go(mode.dataset.leave),
  };
})();
