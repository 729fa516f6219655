"use strict";
// Sorts a table by the column whose heading is pressed; cells without a value stay last either way.
document.querySelectorAll("table.sortable").forEach(function (table) {
  const heads = Array.from(table.tHead.rows[0].cells);
  const body = table.tBodies[0];

  function keyOf(row, column) {
    const cell = row.cells[column];
    const ordered = cell.getAttribute("data-order");
    const text = ordered !== null ? ordered : cell.firstChild ? cell.firstChild.textContent.trim() : "";
    const number = parseFloat(text.replace(/[,%<]/g, "").replace("−", "-"));
    return Number.isNaN(number) ? text.toLowerCase() : number;
  }

  function isEmpty(key) {
    return typeof key === "string" && /^(|–|n\/a|hidden|not estimable.*)$/.test(key);
  }

  function compare(first, second, direction) {
    if (isEmpty(first) !== isEmpty(second)) { return isEmpty(first) ? 1 : -1; }
    if (typeof first !== typeof second) { return typeof first === "number" ? -1 : 1; }
    return (first < second ? -1 : first > second ? 1 : 0) * direction;
  }

  function nameOf(row) { return row.cells[0].textContent; }

  // The other views of the same lines keep the order that a reader picked in this one.
  function follow(names) {
    table.closest(".views").querySelectorAll("table").forEach(function (other) {
      if (other === table) { return; }
      Array.from(other.tHead.rows[0].cells).forEach(function (head) { head.removeAttribute("aria-sort"); });
      Array.from(other.tBodies[0].rows)
        .sort(function (a, b) { return names.indexOf(nameOf(a)) - names.indexOf(nameOf(b)); })
        .forEach(function (row) { other.tBodies[0].appendChild(row); });
    });
  }

  heads.forEach(function (head, column) {
    if (!head.textContent.trim()) { return; }
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", function () {
      const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
      Array.from(body.rows)
        .map(function (row) { return [keyOf(row, column), row]; })
        .sort(function (a, b) { return compare(a[0], b[0], direction); })
        .forEach(function (pair) { body.appendChild(pair[1]); });
      if (table.closest(".views")) { follow(Array.from(body.rows, nameOf)); }
    });
  });
});
// A page below its home has a way back to all sites; a copy that was mailed has nowhere to go back to.
const place = /\/sites\/[^/]+\/(latest\/)?[^/]+$/.exec(window.location.pathname);
document.querySelectorAll(".back").forEach(function (back) {
  if (!place) { return; }
  back.firstChild.setAttribute("href", place[1] ? "../../../index.html" : "../../index.html");
  back.hidden = false;
});
// What the columns mean belongs on paper too.
window.addEventListener("beforeprint", function () {
  document.querySelectorAll("details").forEach(function (details) { details.open = true; });
});
// Another decision level: what becomes of 100 patients, from numbers that were counted when the page was made.
document.querySelectorAll("[data-levels]").forEach(function (section) {
  const levels = JSON.parse(section.getAttribute("data-levels"));
  const slider = section.querySelector("input[type=range]");
  const model = section.querySelector("[data-strategy=model]");

  function show() {
    const [level, flagged, found, missed, benefit, everybody] = levels[Number(slider.value)];
    const parts = { found: found, needless: flagged - found, missed: missed, left: 100 - flagged - missed };
    const percent = level + "%";
    let start = 0;
    Object.keys(parts).forEach(function (name) {
      const bar = model.querySelector("rect." + name);
      bar.setAttribute("x", start);
      bar.setAttribute("width", parts[name]);
      start += parts[name];
      model.querySelector("[data-part=" + name + "]").textContent = parts[name];
    });
    model.querySelector(".name").textContent = "Model, from " + percent + " risk";
    section.querySelector("output").textContent = percent;
    slider.setAttribute("aria-valuetext", percent);
    section.querySelector("#net-benefit").textContent = "Net benefit in 100 patients: " + benefit.toFixed(1).replace("-", "−")
      + " by the model, " + everybody.toFixed(1).replace("-", "−") + " acting on everybody, 0 on nobody.";
    section.querySelector("#price").textContent = ((100 - level) / level).toFixed(1);
    section.querySelector("#price-level").textContent = percent;
  }

  slider.addEventListener("input", show);
  section.querySelector(".slider").hidden = false;
});
// A letter is copied with one click; the selection stays, so that a browser that refuses leaves it marked.
document.querySelectorAll("button.copy").forEach(function (button) {
  button.hidden = false;
  button.addEventListener("click", function () {
    window.getSelection().selectAllChildren(document.querySelector(".letter"));
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C to copy";
  });
});
