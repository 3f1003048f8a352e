// Says how old the figures of a live region are. HTMX does the refreshing; without scripts a page shows when it was made.
(() => {
  "use strict";
  const asOf = document.getElementById("as-of");
  if (!asOf) return;
  const time = asOf.querySelector("time");
  const stale = asOf.querySelector("[data-note]");

  const answered = (moment) => {
    const iso = moment.toISOString();
    time.dateTime = iso;
    time.title = `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`;
    time.textContent = `${iso.slice(11, 19)} UTC`;
    delete asOf.dataset.tone;
    stale.hidden = true;
  };

  // No data is not zero: when the server is away the figures stay, and say since when they are old.
  const away = () => {
    asOf.dataset.tone = "critical";
    stale.hidden = false;
  };

  document.addEventListener("htmx:afterRequest", (event) => {
    const { xhr, successful } = event.detail;
    if (!successful) return away();
    const date = new Date(xhr.getResponseHeader("Date") ?? Date.now());
    answered(Number.isNaN(date.valueOf()) ? new Date() : date);
  });
})();
