// The field for a file of questions checks the file when it is chosen, and sends it once.
(function () {
  "use strict";
  const file = document.getElementById("dataset_file");
  if (!file) return;
  const form = file.form;
  const drop = document.getElementById("drop");
  const error = document.getElementById("dataset_file-error");
  let isUploading = false;

  function say(text) {
    error.textContent = text;
    file.setAttribute("aria-invalid", text ? "true" : "");
    file.closest(".field-row").dataset.invalid = text ? "true" : "";
  }
  function isPresent() {
    return file.files.length > 0 || form.querySelector("[name=dataset_token]") !== null;
  }
  function isBad() {
    return file.getAttribute("aria-invalid") === "true" || form.querySelector("#preview .error") !== null;
  }
  function refresh() {
    const hasChosen = form.querySelector("#preview .chosen") !== null;
    drop.classList.toggle("has-file", hasChosen || isUploading);
    drop.querySelector(".drop-text").textContent = hasChosen || isUploading ? drop.dataset.chosen : drop.dataset.empty;
    form.dispatchEvent(new CustomEvent("file"));
  }
  function size(bytes) {
    return bytes < 1 << 20 ? Math.max(1, Math.round(bytes / 1024)) + " KB" : (bytes / (1 << 20)).toFixed(1) + " MB";
  }
  function problem(chosen) {
    if (!/\.(csv|xlsx|xls)$/i.test(chosen.name)) return form.getAttribute("data-unsupported");
    if (chosen.size > Number(form.getAttribute("data-max-bytes"))) return form.getAttribute("data-too-large");
    return "";
  }
  function clear() {
    document.getElementById("preview").replaceChildren();
  }
  // A file and a saved dataset replace each other.
  function chooseNoSaved() {
    if (form.elements.dataset) form.elements.dataset.value = "";
  }
  window.wending.file = { element: file, say, isPresent, isBad, isUploading: () => isUploading };

  file.addEventListener("change", () => {
    if (!file.files.length) return;
    clear();
    chooseNoSaved();
    const chosen = file.files[0];
    const wrong = problem(chosen);
    say(wrong ? `${chosen.name} · ${size(chosen.size)} – ${wrong}` : "");
    if (wrong) {
      file.value = "";
    } else {
      isUploading = true;
      document.getElementById("upload-name").textContent = `${chosen.name} · ${size(chosen.size)}`;
      file.dispatchEvent(new CustomEvent("chosen"));
    }
    refresh();
  });
  file.addEventListener("htmx:xhr:progress", (event) => {
    const share = event.detail.total ? event.detail.loaded / event.detail.total : 0;
    document.getElementById("upload").value = share;
    document.getElementById("upload-percent").textContent = Math.round(100 * share) + "%";
  });
  file.addEventListener("htmx:afterRequest", (event) => {
    isUploading = false;
    document.getElementById("upload").value = 1;
    document.getElementById("upload-percent").textContent = "100%";
    // The server has the file under a token, so it need not be sent again.
    if (form.querySelector("[name=dataset_token]")) file.value = "";
    refresh();
    form.dispatchEvent(new CustomEvent("uploaded", { detail: event.detail.successful }));
  });
  ["dragenter", "dragover"].forEach((kind) => drop.addEventListener(kind, () => drop.classList.add("is-over")));
  ["dragleave", "drop"].forEach((kind) => drop.addEventListener(kind, () => drop.classList.remove("is-over")));
  form.addEventListener("click", (event) => {
    if (!event.target.closest("[data-remove-file]")) return;
    file.value = "";
    clear();
    chooseNoSaved();
    say("");
    refresh();
    file.focus();
  });
  document.body.addEventListener("htmx:afterSwap", refresh);
  refresh();
})();
