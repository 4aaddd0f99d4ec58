// The form for a file of answers: a file that was checked waits on the server and is not sent again.
(function () {
  "use strict";
  const file = document.getElementById("answers-file");
  if (!file) return;
  const token = () => file.form.querySelector("[name=dataset_token]");
  file.addEventListener("change", () => {
    const old = token();
    if (old) old.remove(); // it names the file chosen before
  });
  file.form.addEventListener("submit", () => {
    file.disabled = token() !== null;
  });
  window.addEventListener("pageshow", () => {
    file.disabled = false;
  });
})();
