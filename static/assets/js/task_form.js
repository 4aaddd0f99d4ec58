// The form for a task: checks while one types, sends the file once, and says what is still missing.
(function () {
  "use strict";
  const form = document.getElementById("create");
  const name = form.elements.task_name;
  const url = form.elements.agent_api_url;
  const file = document.getElementById("dataset_file");
  const drop = document.getElementById("drop");
  const submit = document.getElementById("submit");
  const save = document.getElementById("save");
  const missing = document.getElementById("missing");
  const uploading = document.getElementById("uploading");
  const words = submit.textContent;
  let isUploading = false;
  let pressed = null; // the button that waits for the upload
  let isSending = false;

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
  // What keeps the form from being sent: the fields with what is wrong, in the form's order.
  function problems() {
    const found = [];
    if (!name.value.trim() || nameProblem()) found.push([name, nameProblem() || form.dataset.nameMissing, missing.dataset.name]);
    if (!url.value.trim() || urlProblem()) found.push([url, urlProblem() || form.dataset.urlMissing, missing.dataset.url]);
    if (!hasFile() || hasBadFile()) found.push([file, hasBadFile() ? "" : form.dataset.fileMissing, missing.dataset.file]);
    return found;
  }
  function refresh() {
    const open = problems();
    missing.textContent = open.length ? missing.dataset.text.replace("%", open.map((one) => one[2]).join(missing.dataset.separator)) : "";
    for (const button of [submit, save]) button.disabled = open.length > 0 || isSending;
    const hasChosen = form.querySelector("#preview .chosen") !== null;
    drop.classList.toggle("has-file", hasChosen || isUploading);
    drop.querySelector(".drop-text").textContent = hasChosen || isUploading ? drop.dataset.chosen : drop.dataset.empty;
  }
  function fileProblem(chosen) {
    if (!/\.(csv|xlsx|xls)$/i.test(chosen.name)) return form.dataset.unsupported;
    if (chosen.size > Number(form.dataset.maxBytes)) return form.dataset.tooLarge;
    return "";
  }
  function clearPreview() {
    document.getElementById("preview").replaceChildren();
  }

  name.addEventListener("input", () => { say(name, nameProblem()); refresh(); });
  url.addEventListener("input", () => { if (!urlProblem()) say(url, ""); refresh(); });
  url.addEventListener("change", () => { say(url, urlProblem()); refresh(); });
  file.addEventListener("change", () => {
    if (!file.files.length) return;
    clearPreview();
    const chosen = file.files[0];
    const problem = fileProblem(chosen);
    say(file, problem ? chosen.name + " – " + problem : "");
    if (problem) {
      file.value = "";
    } else {
      isUploading = true;
      document.getElementById("upload-name").textContent = uploading.dataset.text.replace("%", chosen.name);
      file.dispatchEvent(new CustomEvent("chosen"));
    }
    refresh();
  });
  file.addEventListener("htmx:xhr:progress", (event) => {
    const share = event.detail.total ? event.detail.loaded / event.detail.total : 0;
    document.getElementById("upload").value = share;
    document.getElementById("upload-percent").textContent = Math.round(100 * share) + " %";
  });
  file.addEventListener("htmx:afterRequest", (event) => {
    isUploading = false;
    document.getElementById("upload").value = 1;
    document.getElementById("upload-percent").textContent = "100 %";
    // The server has the file under a token: it need not be sent again.
    if (form.querySelector("[name=dataset_token]")) file.value = "";
    const button = pressed;
    pressed = null;
    submit.textContent = words;
    refresh();
    if (button && event.detail.successful) form.requestSubmit(button);
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
    const button = event.submitter;
    if (button && button.hasAttribute("formaction")) return; // the switch of language
    if (isSending) { // a second click
      event.preventDefault();
      return;
    }
    const open = problems();
    if (open.length) {
      event.preventDefault();
      for (const [field, text] of open) if (text) say(field, text);
      open[0][0].focus();
      return;
    }
    if (isUploading) {
      event.preventDefault();
      pressed = button;
      submit.textContent = form.dataset.busy;
      return;
    }
    // Not before the browser has read the form: a disabled button's value would not be sent.
    isSending = true;
    setTimeout(() => {
      submit.textContent = form.dataset.busy;
      refresh();
    });
  });
  document.body.addEventListener("htmx:afterSwap", refresh);
  // A page that returns from the browser's cache has its buttons as they were left.
  window.addEventListener("pageshow", () => {
    submit.textContent = words;
    pressed = null;
    isSending = false;
    refresh();
  });
  refresh();
})();
