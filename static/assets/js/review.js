// Verdicts and notes of the person at this browser. What is typed stays here until the server has it.
(function () {
  "use strict";
  const { toast } = window.wending;
  const who = document.getElementById("who");

  function stored(key) { try { return localStorage.getItem(key) || ""; } catch { return ""; } }
  function store(key, text) { try { if (text) localStorage.setItem(key, text); else localStorage.removeItem(key); } catch { /* a browser that keeps nothing */ } }

  // The reviewer's name is asked for once. It is a cookie, so that pages can tell whose turn a question is.
  function reviewer() {
    const found = document.cookie.split("; ").find((cookie) => cookie.startsWith("reviewer="));
    return found ? decodeURIComponent(found.slice("reviewer=".length)) : "";
  }
  function keepReviewer(name) {
    document.cookie = "reviewer=" + encodeURIComponent(name) + "; path=/; max-age=31536000; samesite=lax";
  }
  function askReviewer() {
    const known = reviewer();
    if (known) return Promise.resolve(known);
    return new Promise((resolve) => {
      who.returnValue = "";
      who.addEventListener("close", () => {
        const name = who.returnValue === "ok" ? document.getElementById("who-name").value.trim() : "";
        if (name) keepReviewer(name);
        resolve(name);
      }, { once: true });
      who.showModal();
    });
  }

  // A place is a group of buttons that judges a question or one of its answers.
  const saidList = (place) => document.getElementById(place.dataset.said);
  const saidBy = (place, name) => [...saidList(place).children].find((said) => said.dataset.reviewer === name && said.dataset.verdict);
  function noteOf(place) {
    const toggle = place.querySelector("[data-note]");
    return toggle && document.getElementById(toggle.dataset.note);
  }
  function show(place, review) {
    let said = [...saidList(place).children].find((one) => one.dataset.reviewer === review.reviewer);
    if (!said) {
      said = who.querySelector("template").content.firstElementChild.cloneNode(true);
      saidList(place).append(said);
    }
    said.hidden = false;
    said.dataset.reviewer = review.reviewer;
    said.dataset.verdict = review.verdict;
    said.dataset.version = review.version;
    said.querySelector("b").textContent = review.reviewer;
    said.querySelector(".said").textContent = who.dataset[review.verdict.toLowerCase()];
    said.querySelector(".remark").textContent = review.note;
  }
  // The buttons and the note show what this person said, or was about to.
  function refresh(place) {
    const own = saidBy(place, reviewer());
    place.querySelectorAll("[data-verdict]").forEach((button) => {
      button.setAttribute("aria-pressed", String(Boolean(own) && own.dataset.verdict === button.dataset.verdict));
    });
    const note = noteOf(place);
    if (!note) return;
    const draft = stored(place.dataset.draft);
    if (document.activeElement !== note) note.value = draft || (own ? own.querySelector(".remark").textContent : "");
    if (draft) openNote(place, false);
  }
  function openNote(place, withFocus) {
    const note = noteOf(place);
    note.hidden = false;
    place.querySelector("[data-note]").setAttribute("aria-expanded", "true");
    if (withFocus) note.focus();
  }

  const undoKey = "wending-undo";
  function request(place, name, own, verdict, note) {
    const query = new URLSearchParams({ reviewer: name, version: own ? own.dataset.version : 0 });
    if (place.dataset.run) query.set("run_index", place.dataset.run);
    if (!verdict) return fetch(place.dataset.judge + "?" + query, { method: "DELETE" });
    return fetch(place.dataset.judge, {
      method: "PUT", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        reviewer: name, verdict, note, version: own ? Number(own.dataset.version) : Number(saidVersion(place, name)),
        ...(place.dataset.run ? { run_index: Number(place.dataset.run) } : {}),
      }),
    });
  }
  // A verdict that was withdrawn leaves its version for the next.
  function saidVersion(place, name) {
    const gone = [...saidList(place).children].find((said) => said.dataset.reviewer === name);
    return gone ? gone.dataset.version : 0;
  }
  // Stores a verdict; the one that is there already is withdrawn.
  async function save(place, verdict) {
    const name = await askReviewer();
    if (!name) return toast(who.dataset.needed, true);
    const own = saidBy(place, name);
    const field = noteOf(place);
    const note = field ? field.value : own ? own.querySelector(".remark").textContent : "";
    const isWithdrawal = Boolean(own) && own.dataset.verdict === verdict && note === own.querySelector(".remark").textContent;
    const before = own ? { verdict: own.dataset.verdict, note: own.querySelector(".remark").textContent } : null;
    let response;
    try {
      response = await request(place, name, own, isWithdrawal ? "" : verdict, note);
    } catch {
      return toast(document.body.dataset.networkError, true); // the note stays as a draft
    }
    if (response.status === 204) {
      own.dataset.verdict = "";
      own.hidden = true;
      return refresh(place);
    }
    const told = await response.json();
    if (response.ok) {
      store(place.dataset.draft, "");
      show(place, told);
      if (place.dataset.draft) {
        sessionStorage.setItem(undoKey, JSON.stringify({ judge: place.dataset.judge, name, version: told.version, before, back: location.href }));
        toast(who.dataset.saved, false);
        place.dispatchEvent(new CustomEvent("wending:judged", { bubbles: true }));
      }
    } else if (response.status === 409 && told.current) {
      store(place.dataset.draft, note);
      show(place, told.current);
      toast(who.dataset.changed, true);
    } else {
      toast(told.message || who.dataset.failed, true);
    }
    refresh(place);
  }
  // Takes the last verdict back, and leads to its question.
  async function undo() {
    const last = JSON.parse(sessionStorage.getItem(undoKey) || "null");
    if (!last) return;
    const query = new URLSearchParams({ reviewer: last.name, version: last.version });
    let response;
    try {
      response = last.before
        ? await fetch(last.judge, { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ reviewer: last.name, version: last.version, ...last.before }) })
        : await fetch(last.judge + "?" + query, { method: "DELETE" });
    } catch {
      return toast(document.body.dataset.networkError, true);
    }
    sessionStorage.removeItem(undoKey);
    if (response.ok) location.assign(last.back);
    else toast(who.dataset.failed, true);
  }

  document.addEventListener("click", (event) => {
    const place = event.target.closest("[data-judge]");
    if (!place) return;
    const button = event.target.closest("[data-verdict]");
    const toggle = event.target.closest("[data-note]");
    if (button) save(place, button.dataset.verdict);
    if (toggle) {
      const note = noteOf(place);
      if (note.hidden) openNote(place, true);
      else {
        note.hidden = true;
        toggle.setAttribute("aria-expanded", "false");
      }
    }
  });
  const placeOf = (note) => note.closest(".result").querySelector("[data-judge][data-draft]");
  document.addEventListener("input", (event) => {
    if (event.target.matches(".said-of textarea")) store(placeOf(event.target).dataset.draft, event.target.value);
  });
  document.addEventListener("change", (event) => {
    if (!event.target.matches(".said-of textarea")) return;
    const place = placeOf(event.target);
    const own = saidBy(place, reviewer());
    if (own && own.querySelector(".remark").textContent !== event.target.value) save(place, own.dataset.verdict); // without a verdict it waits for one
  });
  function refreshAll() { document.querySelectorAll("[data-judge]").forEach(refresh); }
  refreshAll();
  document.body.addEventListener("htmx:afterSwap", refreshAll);

  // The form that signs a report off knows the reviewer, and tells their name to the other pages.
  const named = document.querySelector("[data-reviewer-name]");
  if (named) named.form.addEventListener("submit", () => { if (named.value.trim()) keepReviewer(named.value.trim()); });

  const undoButton = document.querySelector("[data-undo]");
  if (undoButton) {
    undoButton.hidden = !sessionStorage.getItem(undoKey);
    undoButton.addEventListener("click", undo);
  }
  const ofCard = (card) => card.querySelector("[data-judge][data-draft]");
  Object.assign(window.wending, { giveVerdict: (card, verdict) => save(ofCard(card), verdict), openNote: (card) => openNote(ofCard(card), true), undo });
})();
