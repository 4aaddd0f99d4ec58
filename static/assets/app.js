// What the pages do beyond plain HTML. Every page works without this file.
(function () {
  "use strict";
  const root = document.documentElement;
  root.classList.add("scripted");

  // Toasts say what happened and leave.
  const toasts = document.getElementById("toasts");
  function leaveLater(note) {
    setTimeout(() => note.remove(), 4000);
  }
  function toast(text, isError) {
    const note = document.createElement("div");
    note.className = isError ? "toast-note is-error" : "toast-note";
    note.textContent = text;
    toasts.append(note);
    leaveLater(note);
  }
  toasts.querySelectorAll(".toast-note").forEach(leaveLater);
  const here = new URL(location.href);
  if (here.searchParams.has("done")) {
    here.searchParams.delete("done");
    history.replaceState(null, "", here);
  }

  // The theme's button offers the other of what is seen, which may be the system's.
  const theme = document.getElementById("theme");
  function offerOtherTheme() {
    const isDark = root.classList.contains("dark");
    theme.value = isDark ? "light" : "dark";
    theme.title = isDark ? theme.dataset.toLight : theme.dataset.toDark;
    theme.setAttribute("aria-label", theme.title);
  }
  if (theme) {
    offerOtherTheme();
    new MutationObserver(offerOtherTheme).observe(root, { attributes: true, attributeFilter: ["class"] });
  }

  // Rows of active tasks replace themselves at every tick; there is none while the page is hidden, or
  // while no such row is left.
  setInterval(() => {
    if (document.visibilityState === "visible" && document.querySelector("[data-active]")) {
      document.body.dispatchEvent(new CustomEvent("tick"));
    }
  }, 1000);
  let lastNetworkToast = 0;
  document.body.addEventListener("htmx:sendError", () => {
    if (Date.now() - lastNetworkToast > 10000) {
      lastNetworkToast = Date.now();
      toast(document.body.dataset.networkError, true);
    }
  });
  // An error page is no fragment: show its words instead.
  document.body.addEventListener("htmx:responseError", (event) => {
    const page = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
    const words = page.querySelector("h1");
    if (words) toast(words.textContent, true);
  });

  // The page of a task follows its progress: every event asks for the live part anew, at most once a second
  // and not while the page is hidden. The last event ends it.
  const followed = document.querySelector("[data-progress]");
  if (followed) follow(followed.dataset.progress);
  function follow(address) {
    const events = new EventSource(address);
    let waiting = null;
    let last = 0;
    function refresh() {
      waiting = null;
      if (document.visibilityState !== "visible") return;
      last = Date.now();
      document.body.dispatchEvent(new CustomEvent("progress"));
    }
    function later() {
      if (waiting === null) waiting = setTimeout(refresh, Math.max(0, 1000 - (Date.now() - last)));
    }
    function end() {
      events.close();
      later();
    }
    events.addEventListener("progress", later);
    ["completed", "failed", "stopped"].forEach((kind) => events.addEventListener(kind, end));
    document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") later(); });
  }

  const form = document.getElementById("create");
  if (form) createForm(form);
  document.querySelectorAll("[data-export]").forEach(exportButton);
  if (document.querySelector(".report")) report();

  // The form for a new task: checks as one types, and a button that is ready when the form is.
  function createForm(form) {
    const name = form.elements.task_name;
    const url = form.elements.agent_api_url;
    const file = document.getElementById("dataset_file");
    const drop = document.getElementById("drop");
    const submit = document.getElementById("submit");
    const save = document.getElementById("save");

    function say(field, text) {
      const line = document.getElementById(field.id + "-error");
      line.textContent = text;
      field.setAttribute("aria-invalid", text ? "true" : "");
      field.closest(".field-row").dataset.invalid = text ? "true" : "";
    }
    function nameProblem() {
      return [...name.value.trim()].length > 64 ? form.dataset.nameLong : "";
    }
    function urlProblem() {
      return url.value.trim() && !/^https?:\/\/[^\s/]/i.test(url.value.trim()) ? form.dataset.urlInvalid : "";
    }
    function hasFile() {
      return file.files.length > 0 || form.querySelector("[name=dataset_token]") !== null;
    }
    function hasBadFile() {
      return file.getAttribute("aria-invalid") === "true" || form.querySelector("#preview .error") !== null;
    }
    function refresh() {
      const ready = name.value.trim() && url.value.trim() && !nameProblem() && !urlProblem() && hasFile() && !hasBadFile();
      for (const button of [submit, save]) {
        button.disabled = !ready;
        button.title = ready ? "" : button.dataset.why;
      }
    }
    function fileProblem(chosen) {
      if (!/\.(csv|xlsx|xls)$/i.test(chosen.name)) return form.dataset.unsupported;
      if (chosen.size > Number(form.dataset.maxBytes)) return form.dataset.tooLarge;
      return "";
    }
    function clearPreview() {
      document.getElementById("preview").replaceChildren();
      drop.classList.remove("has-file");
    }
    name.addEventListener("input", () => { say(name, nameProblem()); refresh(); });
    url.addEventListener("input", () => { if (!urlProblem()) say(url, ""); refresh(); });
    url.addEventListener("change", () => { say(url, urlProblem()); refresh(); });
    file.addEventListener("change", () => {
      clearPreview();
      const problem = file.files.length ? fileProblem(file.files[0]) : "";
      say(file, problem);
      if (problem) {
        file.value = "";
      } else if (file.files.length) {
        drop.classList.add("has-file");
        file.dispatchEvent(new CustomEvent("chosen"));
      }
      refresh();
    });
    file.addEventListener("htmx:xhr:progress", (event) => {
      document.getElementById("upload").value = event.detail.total ? event.detail.loaded / event.detail.total : 0;
    });
    ["dragenter", "dragover"].forEach((kind) => drop.addEventListener(kind, () => drop.classList.add("is-over")));
    ["dragleave", "drop"].forEach((kind) => drop.addEventListener(kind, () => drop.classList.remove("is-over")));
    form.addEventListener("click", (event) => {
      if (!event.target.closest("[data-remove-file]")) return;
      file.value = "";
      clearPreview();
      say(file, "");
      refresh();
      file.focus();
    });
    form.addEventListener("submit", (event) => {
      if (event.submitter && event.submitter !== submit) return;
      submit.disabled = true;
      submit.textContent = form.dataset.busy;
    });
    document.body.addEventListener("htmx:afterSwap", refresh);
    // A page that comes back from the browser's cache has its button as it was left.
    const words = submit.textContent;
    window.addEventListener("pageshow", () => { submit.textContent = words; refresh(); });
    refresh();
  }

  // An export is fetched, so that its button can show that it is being written and what came of it.
  function exportButton(link) {
    const label = link.querySelector("span");
    const words = label.textContent;
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      if (link.getAttribute("aria-busy") === "true") return;
      link.setAttribute("aria-busy", "true");
      label.textContent = link.dataset.busy;
      try {
        const response = await fetch(link.href);
        if (!response.ok) {
          const told = { 404: link.dataset.missing, 409: link.dataset.unfinished }[response.status];
          toast(told || link.dataset.failed, true);
          return;
        }
        const encoded = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("Content-Disposition") || "");
        const address = URL.createObjectURL(await response.blob());
        const anchor = document.createElement("a");
        anchor.href = address;
        anchor.download = encoded ? decodeURIComponent(encoded[1]) : "report";
        anchor.click();
        setTimeout(() => URL.revokeObjectURL(address), 60000);
        toast(link.dataset.done, false);
      } catch {
        toast(navigator.onLine ? link.dataset.failed : document.body.dataset.networkError, true);
      } finally {
        link.removeAttribute("aria-busy");
        label.textContent = words;
      }
    });
  }

  // Keys of the report: j and k walk through the questions, e opens all answers, / searches.
  function report() {
    const cards = [...document.querySelectorAll(".result")];
    const help = document.getElementById("help");
    let at = -1;
    function go(to) {
      if (to < 0 || to >= cards.length) return;
      at = to;
      const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
      cards[at].scrollIntoView({ block: "start", behavior: still ? "auto" : "smooth" });
      cards[at].focus({ preventScroll: true });
    }
    function toggleAll() {
      const folds = document.querySelectorAll(".fold");
      const open = [...folds].some((fold) => !fold.open);
      folds.forEach((fold) => { fold.open = open; });
    }
    document.querySelector("[data-help]").addEventListener("click", () => help.showModal());
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
      const act = {
        j: () => go(at + 1),
        k: () => go(at - 1),
        e: toggleAll,
        "/": () => document.getElementById("search").focus(),
        "?": () => help.showModal(),
      }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
  }
})();
