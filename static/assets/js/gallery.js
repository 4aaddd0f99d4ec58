// An image opens over the page; arrow keys lead to the other images. Without scripts, a link opens the image file.
(function () {
  "use strict";
  const box = document.getElementById("lightbox");
  if (!box) return;
  const links = Array.from(document.querySelectorAll(".exhibit.is-picture"));
  const picture = box.querySelector("img"), caption = box.querySelector("figcaption");
  let at = 0;
  function show(place) {
    at = (place + links.length) % links.length;
    picture.src = links[at].href;
    picture.alt = caption.textContent = links[at].dataset.caption;
    caption.textContent += ` (${at + 1} / ${links.length})`;
  }
  function close() {
    box.close();
    links[at].focus();
    links[at].scrollIntoView({ block: "nearest" });
  }
  links.forEach((link, place) => link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    show(place);
    box.showModal();
  }));
  box.querySelectorAll("[data-go]").forEach((button) => button.addEventListener("click", () => {
    const step = Number(button.dataset.go);
    if (step === 0) close();
    else show(at + step);
  }));
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") show(at + 1);
    else if (event.key === "ArrowLeft") show(at - 1);
    else return;
    event.preventDefault();
  });
  box.addEventListener("click", (event) => { if (event.target === box) close(); });
  box.addEventListener("cancel", () => setTimeout(() => links[at].focus()));
})();
