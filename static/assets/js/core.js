// Enhancements of every page. Every page works without scripts.
(function () {
  "use strict";
  const root = document.documentElement;
  const body = document.body;

  // Toasts report what happened and disappear; one under the pointer stays. A new toast replaces the previous one, so
  // that nothing moves, unless the previous one reports an error.
  const toasts = document.getElementById("toasts");
  function leaveLater(note) {
    setTimeout(() => (note.matches(":hover") ? leaveLater(note) : note.remove()), 5000);
  }
  function toast(text, isError) {
    const note = document.createElement("div");
    note.className = isError ? "toast-note is-error" : "toast-note";
    note.textContent = text;
    if (!isError) toasts.querySelectorAll(".toast-note:not(.is-error)").forEach((one) => one.remove());
    toasts.append(note);
    leaveLater(note);
  }
  toasts.querySelectorAll(".toast-note").forEach(leaveLater);
  const here = new URL(location.href);
  if (here.searchParams.has("done")) {
    here.searchParams.delete("done");
    history.replaceState(null, "", here);
  }

  // While the server cannot be reached, a permanent message states that the figures are out of date.
  const offline = document.getElementById("offline");
  let lastContact = Date.now();
  function setOffline(isOffline) {
    if (!isOffline) lastContact = Date.now();
    if (offline.hidden !== isOffline) return;
    offline.textContent = offline.dataset.text.replace("%", new Date(lastContact).toLocaleTimeString("zh-CN", { timeZone: "Asia/Shanghai", hour12: false }));
    offline.hidden = !isOffline;
    root.classList.toggle("is-offline", isOffline);
  }
  window.wending = { toast, setOffline };

  // The theme changes without a reload, so that nothing on the page is lost. The button offers the opposite of the
  // visible theme, which may be the system's.
  const theme = document.getElementById("theme");
  function offerOtherTheme() {
    const isDark = root.classList.contains("dark");
    theme.value = isDark ? "light" : "dark";
    theme.title = isDark ? theme.dataset.toLight : theme.dataset.toDark;
    theme.setAttribute("aria-label", theme.title);
  }
  offerOtherTheme();
  new MutationObserver(offerOtherTheme).observe(root, { attributes: true, attributeFilter: ["class"] });
  theme.addEventListener("click", (event) => {
    event.preventDefault();
    const chosen = theme.value;
    root.dataset.theme = chosen;
    root.classList.toggle("dark", chosen === "dark");
    fetch(theme.form.getAttribute("action"), { method: "POST", body: new URLSearchParams({ theme: chosen }), redirect: "manual" }).catch(() => {});
  });

  // Switching the language loads the page again and restores the reading position.
  const placeKey = "wending-place";
  document.querySelectorAll("[data-keep-place]").forEach((button) => button.addEventListener("click", () => {
    button.form.elements.back.value = location.pathname + location.search + location.hash;
    const opened = [...document.querySelectorAll("details")].map((details, n) => (details.open ? n : -1)).filter((n) => n >= 0);
    // Texts differ in length between languages, so the position is restored by the id of what is being read.
    const read = [...document.querySelectorAll("article[id]")].find((article) => article.getBoundingClientRect().bottom > 160);
    const anchor = read ? { id: read.id, top: read.getBoundingClientRect().top } : null;
    sessionStorage.setItem(placeKey, JSON.stringify({ path: location.pathname + location.search, top: scrollY, anchor, opened }));
  }));
  const place = JSON.parse(sessionStorage.getItem(placeKey) || "null");
  sessionStorage.removeItem(placeKey);
  if (place && place.path === location.pathname + location.search) {
    const all = document.querySelectorAll("details");
    place.opened.forEach((n) => { if (all[n]) all[n].open = true; });
    window.addEventListener("load", () => {
      const read = place.anchor && document.getElementById(place.anchor.id);
      const top = read ? scrollY + read.getBoundingClientRect().top - place.anchor.top : place.top;
      window.scrollTo({ top, behavior: "instant" });
    });
  }

  // If a form was sent after the session had ended, its typed values are restored after signing in.
  const typedKey = "wending-typed";
  const signInKey = "wending-sign-in";
  const typed = JSON.parse(sessionStorage.getItem(typedKey) || "null");
  if (location.pathname === "/login") {
    sessionStorage.setItem(signInKey, "1");
  } else {
    const isBack = typed && typed.path === location.pathname && sessionStorage.getItem(signInKey);
    const form = isBack && document.querySelectorAll("main form")[typed.index];
    if (form && form.getAttribute("action") === typed.action) {
      for (const field of form.elements) {
        const values = typed.fields.filter(([name]) => name === field.name).map(([, value]) => value);
        if (!field.name || field.type === "hidden" || field.type === "file" || field.type === "password") continue;
        if (field.type === "checkbox" || field.type === "radio") field.checked = values.includes(field.value);
        else if (values.length > 0) field.value = values[0];
      }
      for (let part = form.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    }
    sessionStorage.removeItem(typedKey);
    sessionStorage.removeItem(signInKey);
  }
  document.addEventListener("submit", (event) => {
    if (!body.dataset.account || event.target.getAttribute("method") !== "post" || event.defaultPrevented) return;
    const secret = new Set([...event.target.querySelectorAll("[type=password]")].map((field) => field.name));
    const fields = [...new FormData(event.target)].filter(([name, value]) => typeof value === "string" && !secret.has(name));
    sessionStorage.setItem(typedKey, JSON.stringify({
      path: location.pathname, index: [...document.querySelectorAll("main form")].indexOf(event.target), action: event.target.getAttribute("action"), fields,
    }));
  });

  // A page polls at most once a second, regardless of how many of its parts poll, and not while it is hidden. mayAsk
  // reports whether a part may send a request now, and if so, counts it.
  let lastAsked = 0;
  function mayAsk() {
    if (document.visibilityState !== "visible" || Date.now() - lastAsked < 1000) return false;
    lastAsked = Date.now();
    return true;
  }
  window.wending.mayAsk = mayAsk;
  // Parts that show the current state are refreshed in turn, one at each tick.
  let ticked = 0;
  setInterval(() => {
    const parts = document.querySelectorAll("[data-active][hx-trigger^=tick]");
    if (parts.length > 0 && mayAsk()) parts[ticked++ % parts.length].dispatchEvent(new CustomEvent("tick"));
  }, 1000);

  // Failures of background requests are reported only once, by the permanent message; failures of a user's own
  // requests are reported immediately.
  function isBackground(event) {
    return /^(tick|rows|progress|flights|events|every)\b/.test(event.detail.elt.getAttribute("hx-trigger") || "");
  }
  body.addEventListener("htmx:sendError", (event) => {
    setOffline(true);
    if (!isBackground(event)) toast(body.dataset.networkError, true);
  });
  body.addEventListener("htmx:afterRequest", (event) => { if (event.detail.xhr.status > 0) setOffline(false); });
  let saidFailure = "";
  body.addEventListener("htmx:responseError", (event) => {
    const page = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
    const heading = page.querySelector("h1");
    const words = event.detail.elt.dataset.failed || (heading && heading.textContent);
    if (!words || (isBackground(event) && saidFailure === words)) return;
    saidFailure = isBackground(event) ? words : "";
    toast(words, true);
  });
  body.addEventListener("htmx:afterSwap", () => { saidFailure = ""; });

  // While a requested page is loading, a line at the top shows that, and the old page is marked as busy. Downloads
  // leave the page as it is.
  const main = document.getElementById("main");
  let arrival = null;
  function setLoading(isLoading) {
    clearTimeout(arrival);
    root.classList.toggle("is-loading", isLoading);
    main.setAttribute("aria-busy", String(isLoading));
    if (isLoading) arrival = setTimeout(() => setLoading(false), 30000); // the page did not arrive
  }
  function isPage(link, event) {
    const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    const isHere = link.pathname + link.search === location.pathname + location.search && link.hash;
    return isPlain && !isHere && !link.target && !link.hasAttribute("download") && link.origin === location.origin && !/^\/(api|static)\//.test(link.pathname);
  }
  window.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (link && !event.defaultPrevented && isPage(link, event)) setLoading(true);
  });
  window.addEventListener("submit", (event) => {
    if (!event.defaultPrevented && event.target.getAttribute("method") !== "dialog") setLoading(true);
  });
  window.addEventListener("pageshow", () => setLoading(false));

  // Small behaviours that markup requests.
  document.addEventListener("click", (event) => {
    document.querySelectorAll("details[data-closes][open]").forEach((menu) => { if (!menu.contains(event.target)) menu.open = false; });
    const closer = event.target.closest("[data-close-details]");
    if (closer) {
      const details = closer.closest("details");
      const top = details.getBoundingClientRect().top;
      details.open = false;
      // back to its beginning, if that was above the window
      window.scrollBy({ top: Math.min(0, top - 160), behavior: "instant" });
      details.querySelector("summary").focus({ preventScroll: true });
    }
    const copier = event.target.closest("[data-copy]");
    if (copier) {
      const source = document.querySelector(copier.dataset.copy);
      const select = () => getSelection().selectAllChildren(source); // without HTTPS there is no clipboard
      if (navigator.clipboard) navigator.clipboard.writeText(source.textContent).then(() => toast(copier.dataset.copied), select);
      else select();
    }
    const linker = event.target.closest("[data-copy-address]");
    if (linker) {
      const address = new URL(linker.dataset.copyAddress, location.href).href;
      const show = () => prompt(linker.dataset.uncopied, address);
      if (navigator.clipboard) navigator.clipboard.writeText(address).then(() => toast(linker.dataset.copied, false), show);
      else show();
    }
  });
  function save(address, name) {
    const anchor = document.createElement("a");
    anchor.href = address;
    anchor.download = name;
    anchor.click();
  }

  // collected returns a response's content; null if it is larger than a page should hold.
  async function collected(response, most) {
    const reader = response.body.getReader();
    const parts = [];
    for (let size = 0; ;) {
      const { done, value } = await reader.read();
      if (done) return new Blob(parts, { type: response.headers.get("Content-Type") });
      size += value.length;
      if (size > most) {
        reader.cancel().catch(() => {});
        return null;
      }
      parts.push(value);
    }
  }

  // An export is fetched, so that its button can show progress and the result. A large export is left to the
  // browser, once it is known that the server can write it.
  async function exportFile(link) {
    if (link.getAttribute("aria-busy") === "true") return;
    const label = link.querySelector("span");
    const words = label.textContent;
    link.setAttribute("aria-busy", "true");
    label.textContent = link.dataset.busy;
    try {
      const response = await fetch(link.href);
      if (!response.ok) {
        const known = { 404: link.dataset.missing, 409: link.dataset.unfinished }[response.status];
        const busy = response.status === 503 && (await response.json()).message;
        toast(known || busy || link.dataset.failed, true);
        return;
      }
      const encoded = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("Content-Disposition") || "");
      let content;
      try {
        content = await collected(response, Number(link.dataset.most));
      } catch { // it broke off midway
        toast(link.dataset.failed, true);
        return;
      }
      const name = encoded ? decodeURIComponent(encoded[1]) : "report";
      if (content === null) {
        save(link.href, name);
        toast(link.dataset.large, false);
        return;
      }
      const address = URL.createObjectURL(content);
      save(address, name);
      setTimeout(() => URL.revokeObjectURL(address), 60000);
      toast(link.dataset.done, false);
    } catch { // no response at all
      toast(body.dataset.networkError, true);
    } finally {
      link.removeAttribute("aria-busy");
      label.textContent = words;
    }
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-export]");
    if (!link) return;
    event.preventDefault();
    exportFile(link);
  });

  // Escape closes a menu and returns the focus to its button.
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details[data-closes][open]");
    if (!menu) return;
    event.stopImmediatePropagation();
    menu.open = false;
    menu.querySelector("summary").focus();
  }, true);
  // An open menu stays open when the part around it is replaced.
  body.addEventListener("htmx:beforeSwap", (event) => {
    const opened = [...event.detail.target.querySelectorAll("details[data-closes]")].map((menu) => menu.open);
    if (!opened.includes(true)) return;
    body.addEventListener("htmx:afterSwap", () => {
      const menus = document.querySelectorAll(`#${event.detail.target.id} details[data-closes]`);
      if (menus.length === opened.length) menus.forEach((menu, n) => { menu.open = opened[n]; });
    }, { once: true });
  });

  // Each tab of a task remembers what was chosen on it – filters, order, page – and its scroll position, for as long as
  // the window is open. It does not remember that it showed only the questions that were finished at the time.
  const tabs = document.querySelector("[data-tabs]");
  const tabKey = (path) => "wending-tab-" + path;
  if (tabs) {
    const isHere = (link) => link.pathname === location.pathname;
    const own = [...tabs.querySelectorAll("a")].find(isHere);
    const left = own && JSON.parse(sessionStorage.getItem(tabKey(own.pathname)) || "null");
    if (left && left.isReturn && left.search === location.search && !location.hash) {
      window.addEventListener("load", () => window.scrollTo({ top: left.top, behavior: "instant" }));
    }
    document.addEventListener("click", (event) => {
      const link = event.target.closest("[data-tabs] a");
      const kept = link && JSON.parse(sessionStorage.getItem(tabKey(link.pathname)) || "null");
      if (!kept || isHere(link) || link.search !== "") return;
      link.search = kept.search;
      sessionStorage.setItem(tabKey(link.pathname), JSON.stringify({ ...kept, isReturn: true }));
    });
    window.addEventListener("pagehide", () => {
      const search = new URLSearchParams(location.search);
      ["partial", "done", "view", "text", "align"].forEach((name) => search.delete(name));
      if (own) sessionStorage.setItem(tabKey(location.pathname), JSON.stringify({ search: search.size ? "?" + search : "", top: scrollY }));
    });
  }

  // Polls what others do with a task: every two seconds while they are active, and less and less often while they are
  // not. Their verdicts appear in place (review.js) if that moves nothing; one line announces whatever a page cannot
  // show in place.
  const least = 2000;
  const most = 15000;
  const news = () => document.querySelector("[data-presence]");
  let reviewed = "";
  let said = "";
  let latest = null;
  let pause = least;
  let asking = null;
  function showNews() { // the head of a running task may have been replaced
    const count = document.getElementById("reviewed");
    if (count && reviewed) count.textContent = reviewed;
    if (!news()) return;
    news().firstElementChild.textContent = said;
    news().hidden = !said;
  }
  function later(wait) {
    clearTimeout(asking);
    asking = setTimeout(ask, wait);
  }
  function take(answer) {
    const told = answer.querySelector("[data-latest]");
    const changes = [...answer.querySelectorAll("[data-places]")];
    // It falls when the reader names themself, because their own verdicts no longer count.
    const isNew = latest !== null && Number(told.dataset.latest) > Number(latest);
    pause = isNew || reviewed !== told.textContent ? least : Math.min(most, pause * 1.4);
    reviewed = told.textContent;
    latest = told.dataset.latest;
    const event = new CustomEvent("wending:verdicts", { cancelable: true, detail: { changes, judged: told.dataset.judged } });
    const isShown = isNew && !body.dispatchEvent(event); // a script that showed all changes cancels the event
    if (isNew && !isShown) said = told.dataset.news;
    if (told.dataset.state && told.dataset.state !== news().dataset.state && !document.querySelector("[data-progress]")) said = news().dataset.changed;
    showNews();
  }
  async function ask() {
    if (document.visibilityState !== "visible" || !news()) return; // requested when the page is visible again
    if (!mayAsk()) return later(300);
    try {
      const address = news().dataset.presence + (latest === null ? "" : "?after=" + latest);
      const answer = await fetch(address, { headers: { "HX-Request": "true" } });
      if (!answer.ok || answer.redirected) return; // signed out, or deleted: other requests report that
      take(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { // no connection; other parts of the page report it
      pause = most;
    }
    later(pause);
  }
  window.wending.askNews = () => { pause = least; if (news()) later(0); }; // something was changed here
  if (news()) {
    body.addEventListener("htmx:afterSwap", showNews);
    document.addEventListener("visibilitychange", () => {
      pause = least;
      if (document.visibilityState === "visible") later(0);
    });
    later(0);
  }

  // Two items can be ticked for a comparison; a third tick replaces the first. ticked holds their values, oldest
  // first.
  function tick(ticked, box) {
    const others = ticked.filter((value) => value !== box.value);
    return box.checked ? [...others, box.value].slice(-2) : others;
  }
  window.wending.tick = tick;
  const tickedIn = new WeakMap(); // the ticked values, by form
  document.addEventListener("change", (event) => {
    const form = event.target.closest("[data-tick-two]");
    if (!form || event.target.name !== "task") return;
    const boxes = [...form.querySelectorAll("[name=task]")];
    const before = tickedIn.get(form) || boxes.filter((box) => box.checked !== (box === event.target)).map((box) => box.value);
    const ticked = tick(before, event.target);
    tickedIn.set(form, ticked);
    boxes.forEach((box) => { box.checked = ticked.includes(box.value); });
    form.querySelector("[data-needs-two]").disabled = ticked.length !== 2;
  });
  document.querySelectorAll("[data-submit-on-change]").forEach((form) => {
    form.addEventListener("change", () => form.requestSubmit());
    // keeps links short
    form.addEventListener("formdata", (event) => [...event.formData].forEach(([name, value]) => { if (value === "") event.formData.delete(name); }));
  });
})();
