document.querySelectorAll("table.sortable").forEach(function (table) {
  var body = table.tBodies[0];
  Array.from(table.tHead.rows[0].cells).forEach(function (head, column) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.textContent = "";
    head.appendChild(button);
    button.addEventListener("click", function () {
      var up = head.getAttribute("aria-sort") !== "ascending";
      Array.from(table.tHead.rows[0].cells).forEach(function (other) { other.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      function key(row) {
        var cell = row.cells[column];
        var text = cell.hasAttribute("data-order") ? cell.getAttribute("data-order") : cell.firstChild ? cell.firstChild.textContent.trim() : "";
        var number = parseFloat(text.replace(/[,%]/g, ""));
        return isNaN(number) ? text.toLowerCase() : number;
      }
      Array.from(body.rows).sort(function (a, b) {
        var x = key(a), y = key(b);
        if (typeof x !== typeof y) { return typeof x === "number" ? -1 : 1; }
        return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1);
      }).forEach(function (row) { body.appendChild(row); });
    });
  });
});
