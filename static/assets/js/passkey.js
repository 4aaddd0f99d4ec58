// Passkeys: signing in with one, and adding one to an account.
(function () {
  "use strict";
  const form = document.getElementById("passkey");
  if (!form || !window.PublicKeyCredential || !PublicKeyCredential.parseRequestOptionsFromJSON) return;
  const button = form.querySelector("button");
  const problem = form.querySelector(".error");
  button.hidden = false;

  async function said(answer) {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const heading = page.querySelector("h1");
    return heading ? heading.textContent : form.getAttribute("data-refused");
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.textContent = "";
    try {
      const begun = await fetch(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(new FormData(form)) });
      if (!begun.ok) throw new Error(await said(begun));
      const { options, key } = await begun.json();
      const isNew = form.hasAttribute("data-new");
      const credential = isNew
        ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options.publicKey) })
        : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options.publicKey) });
      const done = await fetch(form.getAttribute("data-done"), {
        method: "POST", headers: { "Content-Type": "application/json", "X-Passkey": key }, body: JSON.stringify(credential),
      });
      if (!done.ok) throw new Error(await said(done));
      location.assign((await done.json()).next);
    } catch (failure) {
      problem.textContent = failure.name === "Error" ? failure.message : form.getAttribute("data-refused");
      button.disabled = false;
    }
  });
})();
