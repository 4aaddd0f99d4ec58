// Verdicts and notes of the person using this browser. Typed text is kept here until the server has it.
(function () {
  "use strict";
  const { toast } = window.wending;
  const who = document.getElementById("who");

  function stored(key) { try { return localStorage.getItem(key) || ""; } catch { return ""; } }
  function store(key, text) { try { if (text) localStorage.setItem(key, text); else localStorage.removeItem(key); } catch { /* the browser stores nothing */ } }

  // The reviewer is the signed-in user; without accounts a name is asked for once. It is stored in a cookie, so
  // that pages can show whose turn a question is.
  function reviewer() {
    if (document.body.dataset.account) return document.body.dataset.account;
    const kept = document.cookie.split("; ").map((cookie) => cookie.split("="));
    const found = kept.find(([name]) => name === "__Host-reviewer") || kept.find(([name]) => name === "reviewer");
    return found ? decodeURIComponent(found[1]) : "";
  }
  function keepReviewer(name) {
    const isSecure = location.protocol === "https:"; // so that no other subdomain of this site can set it
    document.cookie = (isSecure ? "__Host-" : "") + "reviewer=" + encodeURIComponent(name) + "; path=/; max-age=31536000; samesite=lax" + (isSecure ? "; secure" : "");
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

  // A place is a group of buttons with which a question or one of its answers is judged.
  const saidList = (place) => document.getElementById(place.dataset.said);
  const saidBy = (place, name) => [...saidList(place).children].find((said) => said.dataset.reviewer === name && said.dataset.verdict);
  function noteOf(place) {
    const toggle = place.querySelector("[data-note]");
    return toggle && document.getElementById(toggle.dataset.note);
  }
  // The names of reasons. Common reasons have names in the catalogue; a project's own reasons are their own names.
  const reasonNames = who ? JSON.parse(who.dataset.reasonNames) : {}; // a page without questions has none
  const namesOf = (reasons) => reasons.map((reason) => reasonNames[reason] || reason).join(who.dataset.between);
  const storedReasons = (said) => JSON.parse(said.dataset.reasons || "[]");
  const reasonButtons = (place) => (place.querySelectorAll ? [...place.querySelectorAll("[data-reason]")] : []);
  // Suggested reasons count with a verdict that finds fault; a pass only has reasons that the reviewer chose.
  function chosenReasons(place, verdict, own) {
    const buttons = reasonButtons(place);
    if (!buttons.length) return own ? storedReasons(own) : [];
    if (verdict === "PASS" && !own && !place.dataset.isChosen) return [];
    return buttons.filter((button) => button.getAttribute("aria-pressed") === "true").map((button) => button.dataset.reason);
  }
  function pressReasons(place, isPressed) {
    reasonButtons(place).forEach((button) => button.setAttribute("aria-pressed", String(isPressed(button))));
  }
  function toggleReason(place, button) {
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    place.dataset.isChosen = "true";
    const pressed = reasonButtons(place).filter((one) => one.getAttribute("aria-pressed") === "true");
    store(place.dataset.draft + " reasons", JSON.stringify(pressed.map((one) => one.dataset.reason)));
  }
  // Ratings are on the project's dimensions, in review mode; elsewhere a verdict leaves the stored ones as they are.
  const ratingsPart = (place) => (place.closest && noteOf(place) ? document.getElementById(noteOf(place).id.replace(/-note$/, "-ratings")) : null);
  const storedRatings = (said) => JSON.parse(said.dataset.ratings || "{}");
  function chosenRatings(place) {
    const part = ratingsPart(place);
    if (!part) return undefined;
    const ratings = {};
    for (const row of part.querySelectorAll("[data-dimension]")) {
      const pressed = row.querySelector("[aria-pressed=true]"), typed = row.querySelector("input");
      if (pressed) ratings[row.dataset.dimension] = JSON.parse(pressed.dataset.rating);
      else if (typed && typed.value !== "") ratings[row.dataset.dimension] = Number(typed.value);
    }
    return ratings;
  }
  function showRatings(place, ratings) {
    const part = ratingsPart(place);
    if (part) part.querySelectorAll("[data-dimension]").forEach((row) => {
      const value = ratings[row.dataset.dimension], typed = row.querySelector("input");
      row.querySelectorAll("[data-rating]").forEach((button) => button.setAttribute("aria-pressed", String(JSON.parse(button.dataset.rating) === value)));
      if (typed && document.activeElement !== typed) typed.value = value === undefined ? "" : value;
    });
  }
  // A rating is sent with the verdict, at once if there is one.
  function rate(place) {
    store(place.dataset.draft + " ratings", JSON.stringify(chosenRatings(place)));
    const own = saidBy(place, reviewer());
    if (own) save(place, own.dataset.verdict, false);
  }
  const sameRatings = (a, b) => b === undefined || Object.keys({ ...a, ...b }).every((name) => a[name] === b[name]);
  const groundsOf = (review) => [namesOf(review.reasons), ...Object.keys(review.ratings).sort().map((name) => name + " " + review.ratings[name])].filter(Boolean).join(" · ");
  const sameReasons = (a, b) => a.length === b.length && a.every((one) => b.includes(one));
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
    said.dataset.reasons = JSON.stringify(review.reasons);
    said.dataset.ratings = JSON.stringify(review.ratings);
    said.querySelector(".said-reasons").textContent = groundsOf(review);
    said.querySelector("b").textContent = review.reviewer;
    said.querySelector(".said").textContent = who.dataset[review.verdict.toLowerCase()];
    said.querySelector(".remark").textContent = review.note;
  }
  // The buttons and the note show this reviewer's verdict or draft.
  function refresh(place) {
    const own = saidBy(place, reviewer());
    place.querySelectorAll("[data-verdict]").forEach((button) => {
      button.setAttribute("aria-pressed", String(Boolean(own) && own.dataset.verdict === button.dataset.verdict));
    });
    const note = noteOf(place);
    const withdraw = place.querySelector("[data-withdraw]");
    if (withdraw) withdraw.hidden = !own;
    const drafted = place.dataset.draft && stored(place.dataset.draft + " reasons");
    if (drafted) place.dataset.isChosen = "true";
    const reasons = drafted ? JSON.parse(drafted) : own ? storedReasons(own) : null;
    pressReasons(place, (button) => (reasons ? reasons.includes(button.dataset.reason) : "found" in button.dataset));
    if (!note) return;
    const rated = stored(place.dataset.draft + " ratings");
    showRatings(place, rated ? JSON.parse(rated) : own ? storedRatings(own) : {});
    const draft = stored(place.dataset.draft);
    if (document.activeElement !== note) note.value = draft || (own ? own.querySelector(".remark").textContent : "");
    if (draft) openNote(place, false);
    tellState(place);
  }
  // A draft is stored in this browser with the time at which it was written.
  const timeOfDay = (time) => time.toLocaleTimeString("zh-CN", { timeZone: "Asia/Shanghai", hour12: false });
  function storeDraft(place, text) {
    store(place.dataset.draft, text);
    store(place.dataset.draft + " at", text ? timeOfDay(new Date()) : "");
  }
  function dropDraft(place) {
    storeDraft(place, "");
    store(place.dataset.draft + " reasons", "");
    store(place.dataset.draft + " ratings", "");
    delete place.dataset.isChosen;
  }
  // The state of a note is shown below it: a draft in this browser, or stored with the verdict.
  function tellState(place) {
    const note = noteOf(place);
    const own = saidBy(place, reviewer());
    const isStored = own && own.querySelector(".remark").textContent === note.value;
    const at = stored(place.dataset.draft + " at");
    const state = document.getElementById(note.id + "-state");
    if (!note.value) state.textContent = who.dataset.none;
    else state.textContent = isStored ? who.dataset.stored : who.dataset.draft.replace("%", at);
    state.classList.toggle("is-kept", Boolean(note.value));
  }
  function openNote(place, withFocus) {
    const note = noteOf(place);
    const card = note.closest(".judging");
    if (card && withFocus) card.classList.add("is-noting");
    note.closest(".note-field").hidden = false;
    place.querySelector("[data-note]").setAttribute("aria-expanded", String(!card || card.classList.contains("is-noting")));
    if (withFocus) note.focus();
  }
  // In review mode a note is always visible; on a phone it is a sheet above the verdicts.
  function closeNote(place) {
    const field = noteOf(place).closest(".note-field");
    const card = field.closest(".judging");
    if (card) card.classList.remove("is-noting");
    else field.hidden = true;
    place.querySelector("[data-note]").setAttribute("aria-expanded", "false");
  }

  // The last verdict on a question, with the verdict that it replaced, which undo restores.
  const undoKey = "wending-undo";
  function lastVerdict() {
    const last = JSON.parse(sessionStorage.getItem(undoKey) || "null");
    const here = document.querySelector("[data-judge]");
    if (last && last.batch) return here && here.dataset.judge.includes(last.task) ? last : null;
    const task = (address) => address.slice(0, address.indexOf("/items/"));
    return last && here && task(last.judge) === task(here.dataset.judge) ? last : null;
  }
  function send(place, name, verdict, note, reasons, ratings, version) {
    const run = {};
    if (place.dataset.run) run.run_index = Number(place.dataset.run);
    if (place.dataset.variant) run.variant = Number(place.dataset.variant);
    if (verdict) {
      return fetch(place.dataset.judge, {
        method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ reviewer: name, verdict, note, reasons, ratings, version: Number(version), ...run }),
      });
    }
    return fetch(place.dataset.judge + "?" + new URLSearchParams({ reviewer: name, version, ...run }), { method: "DELETE" });
  }
  // Verdicts on one question are stored one after another, because each names the version of the one before. An empty
  // verdict withdraws the current one.
  const queues = new Map();
  function save(place, verdict, isChoice) {
    const queued = (queues.get(place) || Promise.resolve()).then(() => saveNow(place, verdict, isChoice));
    queues.set(place, queued.catch(() => {}));
    return queued;
  }
  // Shows what was hidden until the reviewer gave a verdict.
  function unseal(place) {
    const sealed = place.closest && place.closest("article") && place.closest("article").querySelector("[data-sealed]");
    if (sealed) window.htmx.trigger(sealed, "judged");
  }
  async function saveNow(place, verdict, isChoice) {
    const name = await askReviewer();
    if (!name) return toast(who.dataset.needed, true);
    const own = saidBy(place, name);
    const field = noteOf(place);
    const before = own ? { verdict: own.dataset.verdict, note: own.querySelector(".remark").textContent, reasons: storedReasons(own), ratings: storedRatings(own) } : null;
    const note = field ? field.value : before ? before.note : "";
    const reasons = chosenReasons(place, verdict, own), ratings = chosenRatings(place);
    // nothing has changed
    if (verdict && before && before.verdict === verdict && before.note === note && sameReasons(before.reasons, reasons) && sameRatings(before.ratings, ratings)) {
      if (isChoice) place.dispatchEvent(new CustomEvent("wending:judged", { bubbles: true }));
      return undefined;
    }
    if (!verdict && !before) return undefined;
    // A withdrawn verdict passes its version on to the next one.
    const known = [...saidList(place).children].find((said) => said.dataset.reviewer === name);
    let response;
    try {
      response = await send(place, name, verdict, note, reasons, ratings, known ? known.dataset.version : 0);
    } catch {
      return toast(document.body.dataset.networkError, true); // the note stays as a draft
    }
    if (response.status === 204) {
      own.dataset.verdict = "";
      own.hidden = true;
      sessionStorage.removeItem(undoKey);
      window.wending.askNews();
      return refresh(place);
    }
    const told = await response.json();
    if (response.ok) {
      show(place, told);
      if (place.dataset.draft) {
        dropDraft(place);
        sessionStorage.setItem(undoKey, JSON.stringify({ judge: place.dataset.judge, variant: place.dataset.variant, run: place.dataset.run, draft: place.dataset.draft, name, version: told.version, note, reasons, before, back: location.href }));
        if (isChoice) place.dispatchEvent(new CustomEvent("wending:judged", { bubbles: true }));
      }
      unseal(place);
      window.wending.askNews();
      toast(who.dataset.saved, false);
    } else if (response.status === 409 && told.current) {
      if (place.dataset.draft) storeDraft(place, note);
      show(place, told.current);
      toast(who.dataset.changed, true);
    } else {
      toast(told.message || who.dataset.failed, true);
    }
    return refresh(place);
  }
  // Undoes the last verdict, and opens its question with the note in its field again.
  async function undo() {
    const last = lastVerdict();
    if (!last) return;
    sessionStorage.removeItem(undoKey);
    if (last.batch) return undoBatch(last);
    const place = { dataset: { judge: last.judge, variant: last.variant, run: last.run, draft: last.draft } };
    let response;
    try {
      response = await send(place, last.name, last.before ? last.before.verdict : "", last.before ? last.before.note : "", last.before ? last.before.reasons : [], last.before ? last.before.ratings : {}, last.version);
    } catch {
      sessionStorage.setItem(undoKey, JSON.stringify(last));
      return toast(document.body.dataset.networkError, true);
    }
    if (!response.ok) return toast(who.dataset.failed, true);
    if (last.note && !(last.before && last.before.note === last.note)) storeDraft(place, last.note);
    location.assign(last.back);
  }

  // Verdicts on questions that were passed together are undone together, by the form of their list.
  function undoBatch(last) {
    const form = document.createElement("form");
    form.setAttribute("method", "post");
    form.setAttribute("action", last.action);
    for (const name of ["batch", "reviewer"]) {
      const field = document.createElement("input");
      field.type = "hidden";
      field.name = name;
      field.value = last[name];
      form.append(field);
    }
    document.body.append(form);
    form.submit();
  }
  const sameForm = document.querySelector(".same-form");
  const batch = document.querySelector(".batch [name=batch]");
  const passedKey = "wending-passed";
  if (sameForm) sameForm.addEventListener("submit", () => sessionStorage.setItem(passedKey, location.pathname));
  if (sessionStorage.getItem(passedKey) === location.pathname && batch) {
    sessionStorage.removeItem(passedKey);
    const form = batch.form;
    sessionStorage.setItem(undoKey, JSON.stringify({ batch: batch.value, reviewer: form.elements.reviewer.value, action: form.getAttribute("action"), task: location.pathname.split("/")[2] }));
  }
  if (batch) {
    document.addEventListener("keydown", (event) => {
      if (event.key !== "u" || event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), textarea, select, dialog")) return;
      event.preventDefault();
      batch.form.requestSubmit();
    });
  }

  document.addEventListener("click", (event) => {
    const place = event.target.closest("[data-judge]");
    if (!place) return;
    const button = event.target.closest("[data-verdict]");
    const toggle = event.target.closest("[data-note]");
    if (button) save(place, button.dataset.verdict, true);
    if (event.target.closest("[data-withdraw]")) save(place, "", false);
    const reason = event.target.closest("[data-reason]");
    if (reason) toggleReason(place, reason);
    if (toggle && toggle.getAttribute("aria-expanded") === "true") closeNote(place);
    else if (toggle) openNote(place, true);
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-rating]");
    if (!button) return;
    const isPressed = button.getAttribute("aria-pressed") === "true";
    button.closest("[data-dimension]").querySelectorAll("[data-rating]").forEach((one) => one.setAttribute("aria-pressed", String(one === button && !isPressed)));
    rate(placeRated(button));
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-dimension] input") && event.target.reportValidity()) rate(placeRated(event.target));
  });
  const placeRated = (element) => placesOf(element.closest(".result")).find((place) => ratingsPart(place).contains(element));
  const placesOf = (card) => [...card.querySelectorAll("[data-judge][data-draft]")];
  const placeOf = (note) => placesOf(note.closest(".result")).find((place) => noteOf(place) === note);
  const isNote = (element) => element.matches(".said-of textarea");
  document.addEventListener("input", (event) => {
    if (!isNote(event.target)) return;
    const place = placeOf(event.target);
    storeDraft(place, event.target.value);
    tellState(place);
  });
  // In a note keys type text; with Alt the digits judge, Ctrl or ⌘ and Enter saves, and Esc leaves the note as a
  // draft.
  let isLeft = null; // the note that is left as a draft
  document.addEventListener("keydown", (event) => {
    if (!isNote(event.target) || event.isComposing) return;
    const place = placeOf(event.target);
    const verdict = event.altKey && { Digit1: "PASS", Digit2: "FAIL", Digit3: "UNSURE" }[event.code];
    const isSave = event.key === "Enter" && (event.ctrlKey || event.metaKey);
    if (!verdict && !isSave && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    const own = saidBy(place, reviewer());
    if (verdict) save(place, verdict, true);
    else if (isSave && own) save(place, own.dataset.verdict, false);
    else if (isSave) toast(who.dataset.kept, false);
    else {
      isLeft = event.target;
      if (event.target.closest(".judging")) closeNote(place);
      event.target.closest(".result").focus({ preventScroll: true });
      isLeft = null;
    }
  });
  // A changed note is sent with the current verdict, unless a button is about to give another.
  document.addEventListener("focusout", (event) => {
    if (!isNote(event.target)) return;
    const place = placeOf(event.target);
    const own = saidBy(place, reviewer());
    if (own && event.target !== isLeft && !place.contains(event.relatedTarget) && own.querySelector(".remark").textContent !== event.target.value) save(place, own.dataset.verdict, false);
  });
  // A card is not replaced while somebody is typing in it; its next poll replaces it.
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const target = event.detail.target;
    if (target.matches(".result") && target.contains(document.activeElement) && isNote(document.activeElement)) event.detail.shouldSwap = false;
  });
  // New verdicts of other people appear in their lists. If a verdict would move visible content, the card shows a
  // button with it instead; the verdict appears when the button is pressed, or once the card has left the window.
  const waiting = new Map(); // pairs of a list and what it is to show, by card
  function put(list, arrived) {
    const isSame = (one) => one.dataset.reviewer === arrived.dataset.reviewer && (!list.id.endsWith("-answers") || one.dataset.run === arrived.dataset.run);
    const known = [...list.children].find(isSame);
    if (known) known.replaceWith(arrived);
    else list.append(arrived);
    return () => { if (known) arrived.replaceWith(known); else arrived.remove(); };
  }
  function showWaiting(card) {
    sight.unobserve(card);
    card.querySelector(".said-news").remove();
    waiting.get(card).forEach(([list, arrived]) => put(list, arrived));
    waiting.delete(card);
  }
  const sight = new IntersectionObserver((entries) => entries.forEach((entry) => { if (!entry.isIntersecting) showWaiting(entry.target); }));
  function postpone(card, list, arrived, words) {
    if (!waiting.has(card)) {
      waiting.set(card, []);
      const sign = document.createElement("button");
      sign.type = "button";
      sign.className = "said-news";
      sign.addEventListener("click", () => showWaiting(card));
      card.append(sign);
      sight.observe(card);
    }
    waiting.get(card).push([list, arrived]);
    card.querySelector(".said-news").textContent = words;
  }
  // Returns a function that describes the positions of everything around a list within its card.
  function placesBeside(list, card) {
    const beside = [...list.children];
    for (let part = list; part !== card; part = part.parentElement) beside.push(...part.parentElement.children);
    return () => card.offsetHeight + " " + beside.filter((one) => one !== list && one.isConnected && !one.contains(list)).map((one) => [one.offsetLeft, one.offsetTop, one.offsetHeight]).join(" ");
  }
  function arrive(change) {
    const list = change.dataset.places.split(" ").map((id) => document.getElementById(id)).find(Boolean);
    if (!list) return false;
    const card = list.closest(".result");
    const arrived = document.adoptNode(change.firstElementChild);
    const box = card.getBoundingClientRect();
    const isInSight = box.bottom > 0 && box.top < innerHeight;
    const places = placesBeside(list, card);
    const before = places();
    const takeBack = put(list, arrived);
    if (!isInSight || places() === before) return true;
    takeBack();
    postpone(card, list, arrived, change.dataset.said);
    return true;
  }
  document.body.addEventListener("wending:verdicts", (event) => {
    const { changes, judged } = event.detail;
    const counted = document.querySelector("[data-reviewed]");
    if (counted) counted.textContent = [judged, ...counted.textContent.split(" · ").slice(1)].join(" · ");
    const areShown = changes.map(arrive).every(Boolean);
    const isNarrowed = /[?&](review|reason)=./.test(location.search); // the filter may select other questions now
    if (changes.length > 0 && areShown && !isNarrowed) event.preventDefault();
  });

  function refreshAll() { document.querySelectorAll("[data-judge]").forEach(refresh); }
  refreshAll();
  document.body.addEventListener("htmx:afterSwap", refreshAll);

  // The form that signs off a report has the reviewer's name, which is stored for other pages.
  const named = document.querySelector("[data-reviewer-name]");
  if (named) named.form.addEventListener("submit", () => { if (named.value.trim()) keepReviewer(named.value.trim()); });

  const undoButton = document.querySelector("[data-undo]");
  if (undoButton) {
    undoButton.hidden = !lastVerdict();
    undoButton.addEventListener("click", undo);
  }
  // Keys judge the first of a question's variants that this reviewer has not judged; if it is folded, it is opened
  // first.
  const isJudged = (place) => Boolean(saidBy(place, reviewer()));
  function ofCard(card) {
    const places = placesOf(card);
    const place = places.find((one) => !isJudged(one)) || places[0];
    const folded = place.closest("details:not([open])");
    if (folded) folded.open = true;
    return folded ? null : place;
  }
  function giveVerdict(card, verdict) {
    const place = ofCard(card);
    if (place) save(place, verdict, true);
  }
  Object.assign(window.wending, {
    giveVerdict, undo, save, toggleReason, isPlaceJudged: isJudged, ratingsPart, openNoteOf: (place) => openNote(place, true),
    openNote: (card) => { const place = ofCard(card); if (place) openNote(place, true); },
    isJudged: (card) => placesOf(card).every(isJudged),
  });
})();
