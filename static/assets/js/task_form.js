// The forms for tasks check values while the user types, and show what is still missing.
(function () {
  "use strict";
  const form = document.getElementById("create");
  const name = form.elements.task_name;
  const url = form.elements.agent_api_url;
  const file = window.wending.file;
  const submit = document.getElementById("submit");
  const save = document.getElementById("save");
  const missing = document.getElementById("missing");
  const words = submit.textContent;
  // A control named dataset would hide the form property of that name, so the attributes are read directly.
  const message = (name) => form.getAttribute("data-" + name);
  let pressed = null; // the button that waits for the upload
  let isSending = false;

  function say(field, text) {
    const line = document.getElementById(field.id + "-error");
    line.textContent = text;
    field.setAttribute("aria-invalid", text ? "true" : "");
    field.closest(".field-row").dataset.invalid = text ? "true" : "";
  }
  function chosen(list) { // whether an entry of the library is chosen, by a checkbox or in a list
    return [...form.querySelectorAll(`[name=${list}]`)].some((one) => (one.type === "checkbox" ? one.checked : one.value !== ""));
  }
  // Typing filters a long list of checkboxes; ticked ones stay visible.
  form.querySelectorAll("[data-filter-choices]").forEach((field) => {
    const labels = [...field.closest("fieldset").querySelectorAll("label.choice")];
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      labels.forEach((label) => {
        label.hidden = !label.textContent.toLowerCase().includes(wanted) && !label.querySelector("input").checked;
      });
    });
    field.addEventListener("change", (event) => event.stopPropagation()); // the filter is not part of the task
    field.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
  });
  function nameProblem() {
    return [...name.value.trim()].length > 64 ? message("name-long") : "";
  }
  function urlProblem() {
    return url.value.trim() && !/^https?:\/\/[^\s/]/i.test(url.value.trim()) ? message("url-invalid") : "";
  }
  function isTargetMissing() {
    return !url.value.trim() && !chosen("models") && !chosen("agents");
  }
  // Why the form cannot be sent yet: the invalid fields, in the form's order.
  function problems() {
    const found = [];
    if (!name.value.trim() || nameProblem()) found.push([name, nameProblem() || message("name-missing"), missing.dataset.name]);
    if (isTargetMissing() || urlProblem()) found.push([url, urlProblem() || message("url-missing"), missing.dataset.url]);
    if (file.isBad() || !file.isPresent() && !chosen("dataset")) found.push([file.element, file.isBad() ? "" : message("file-missing"), missing.dataset.file]);
    return found;
  }
  function refresh() {
    const open = problems();
    missing.textContent = open.length ? missing.dataset.text.replace("%", open.map((one) => one[2]).join(missing.dataset.separator)) : "";
    for (const button of [submit, save]) button.disabled = open.length > 0 || isSending;
  }

  name.addEventListener("input", () => { say(name, nameProblem()); refresh(); });
  url.addEventListener("input", () => { if (!urlProblem()) say(url, ""); refresh(); });
  url.addEventListener("change", () => { say(url, urlProblem()); refresh(); });
  form.addEventListener("change", () => { if (!urlProblem() && !isTargetMissing()) say(url, ""); refresh(); });
  form.addEventListener("file", refresh);
  form.addEventListener("uploaded", (event) => {
    const button = pressed;
    pressed = null;
    if (!isSending) submit.textContent = words;
    if (button && event.detail) form.requestSubmit(button);
  });
  form.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (button && button.hasAttribute("formaction")) return; // the language switch
    if (isSending) { // a second click
      event.preventDefault();
      return;
    }
    const open = problems();
    if (open.length) {
      event.preventDefault();
      for (const [field, text] of open) if (text) field === file.element ? file.say(text) : say(field, text);
      open[0][0].closest("details")?.setAttribute("open", "");
      open[0][0].focus();
      return;
    }
    if (file.isUploading()) {
      event.preventDefault();
      pressed = button;
      submit.textContent = message("busy");
      return;
    }
    // Delayed until the browser has read the form, because a disabled button's value would not be sent.
    isSending = true;
    setTimeout(() => {
      submit.textContent = message("busy");
      refresh();
    });
  });
  // The smallest difference that a number of questions and runs can show, by the same formula as on the server
  // (metrics.md, How many questions and runs).
  const power = 2.802;
  function showDesign(root) {
    const of = (name) => Number(root.dataset[name]);
    const questions = Number(root.querySelector("[data-questions]").value);
    const runs = Number(root.querySelector("[data-runs]").value);
    const calls = questions * runs * of("variants");
    const clusters = questions * of("clusters");
    const points = (variance) => {
      const difference = power * Math.sqrt(variance / clusters);
      return clusters < 2 || difference >= 1 ? root.dataset.nothing : root.dataset.points.replace("%", (100 * difference).toFixed(1));
    };
    const values = {
      questions: questions.toLocaleString("en"), runs, calls: calls.toLocaleString("en"), pass: points(of("between") + of("within") / runs),
      agreement: runs > 1 ? points(of("agreement")) : "–", cost: Number((of("cost") * calls).toPrecision(3)).toLocaleString("en"),
    };
    const text = root.dataset.text + root.dataset.costText;
    root.querySelector("output").textContent = text.replace(/%(questions|runs|calls|pass|agreement|cost)/g, (_, name) => values[name]);
  }
  const showDesigns = () => document.querySelectorAll("[data-design]").forEach(showDesign);
  document.addEventListener("input", (event) => {
    const root = event.target.closest("[data-design]");
    if (root) showDesign(root);
  });
  document.addEventListener("change", (event) => { if (event.target.closest("[data-design]")) event.stopPropagation(); }, true); // not part of the task
  document.addEventListener("htmx:afterSettle", showDesigns);
  showDesigns();

  // A page that is restored from the browser's cache has its buttons in the state in which they were left.
  window.addEventListener("pageshow", (event) => {
    if (!event.persisted) return; // a page that has just loaded may already have been sent
    submit.textContent = words;
    pressed = null;
    isSending = false;
    refresh();
  });
  refresh();
})();
