// Verdicts and notes of the person at this browser. What is typed stays here until the server has it.
(function () {
  "use strict";
  const { toast } = window.wending;
  const who = document.getElementById("who");
  const whoName = document.getElementById("who-name");

  function stored(key) { try { return localStorage.getItem(key) || ""; } catch { return ""; } }
  function store(key, text) { try { if (text) localStorage.setItem(key, text); else localStorage.removeItem(key); } catch { /* a browser that keeps nothing */ } }

  // The reviewer's name is asked for once.
  function reviewer() {
    const known = stored("reviewer");
    if (known) return Promise.resolve(known);
    return new Promise((resolve) => {
      who.returnValue = "";
      who.addEventListener("close", () => {
        const name = who.returnValue === "ok" ? whoName.value.trim() : "";
        store("reviewer", name);
        resolve(name);
      }, { once: true });
      who.showModal();
    });
  }
  function saidBy(section, name) {
    return [...section.querySelectorAll("li")].find((said) => said.dataset.reviewer === name);
  }
  function show(section, review) {
    let said = saidBy(section, review.reviewer);
    if (!said) {
      said = section.querySelector("template").content.firstElementChild.cloneNode(true);
      section.querySelector("ul").append(said);
    }
    said.dataset.reviewer = review.reviewer;
    said.dataset.verdict = review.verdict;
    said.dataset.version = review.version;
    said.querySelector("b").textContent = review.reviewer;
    said.querySelector(".said").textContent = said.dataset[review.verdict.toLowerCase()];
    said.querySelector(".remark").textContent = review.note;
  }
  // The buttons and the note show what this person said, or was about to.
  function refresh(section) {
    const own = saidBy(section, stored("reviewer"));
    section.querySelectorAll("[data-verdict][aria-pressed]").forEach((button) => {
      button.setAttribute("aria-pressed", String(Boolean(own) && own.dataset.verdict === button.dataset.verdict));
    });
    const note = section.querySelector("textarea");
    if (document.activeElement !== note) note.value = stored(section.dataset.draft) || (own ? own.querySelector(".remark").textContent : "");
  }
  async function save(section, verdict) {
    const name = await reviewer();
    if (!name) return toast(section.dataset.who, true);
    const own = saidBy(section, name);
    const note = section.querySelector("textarea").value;
    let response;
    try {
      response = await fetch(section.dataset.review, {
        method: "PUT", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ reviewer: name, verdict, note, version: own ? Number(own.dataset.version) : 0 }),
      });
    } catch {
      return toast(document.body.dataset.networkError, true); // the note stays as a draft
    }
    const told = await response.json();
    if (response.ok) {
      store(section.dataset.draft, "");
      show(section, told);
      toast(section.dataset.saved, false);
    } else if (response.status === 409 && told.current) {
      store(section.dataset.draft, note);
      show(section, told.current);
      toast(section.dataset.changed, true);
    } else {
      toast(told.message || section.dataset.failed, true);
    }
    refresh(section);
  }
  document.querySelectorAll("[data-review]").forEach((section) => {
    refresh(section);
    section.addEventListener("click", (event) => {
      const button = event.target.closest("[data-verdict][aria-pressed]");
      if (button) save(section, button.dataset.verdict);
    });
    const note = section.querySelector("textarea");
    note.addEventListener("input", () => store(section.dataset.draft, note.value));
    note.addEventListener("change", () => {
      const own = saidBy(section, stored("reviewer"));
      if (own) save(section, own.dataset.verdict); // without a verdict it waits for one
    });
  });
  window.wending.giveVerdict = (card, verdict) => {
    const section = card.querySelector("[data-review]");
    if (section) save(section, verdict);
  };
})();
