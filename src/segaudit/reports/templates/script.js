(() => {
  "use strict";
  const make = (tag, props = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), props);
    node.append(...children);
    return node;
  };
  const shown = (cell) => {
    const copy = cell.cloneNode(true);
    for (const note of copy.querySelectorAll("small")) note.textContent = ` ${note.textContent}`;
    return copy.textContent.replace(/\s+/g, " ").trim();
  };
  const number = (cell) => {
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const main = [...cell.childNodes].filter((n) => n.nodeName !== "SMALL").map((n) => n.textContent).join("");
    const text = main.trim().replace(/,/g, "").replace("−", "-");
    return text === "" ? NaN : Number(text);
  };

  // A text that a spreadsheet could take for a formula is made plain text; a number is left alone.
  const csvField = (text) => {
    const plain = text.replace(/^−(?=[\d.])/, "-");
    const risky = /^[=+\-@\t\r]/.test(plain) && !/^[+-]?[\d.,]+$/.test(plain);
    return `"${(risky ? `'${plain}` : plain).replace(/"/g, '""')}"`;
  };
  const latexWords = {
    "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", "$": "\\$", "&": "\\&", "#": "\\#", "%": "\\%", "_": "\\_",
    "^": "\\textasciicircum{}", "~": "\\textasciitilde{}", "<": "\\textless{}", ">": "\\textgreater{}",
    "−": "$-$", "→": "$\\to$", "×": "$\\times$", "²": "$^2$", "ε": "$\\varepsilon$", "Δ": "$\\Delta$", "α": "$\\alpha$",
  };
  const latexField = (text) => text.replace(/[\\{}$&#%_^~<>−→×²εΔα]/g, (c) => latexWords[c]);
  const rowsOf = (table) => [...table.rows].filter((row) => !row.hidden).map((row) => [...row.cells].map(shown));
  const asCsv = (table) => rowsOf(table).map((row) => row.map(csvField).join(",")).join("\r\n") + "\r\n";
  const asLatex = (table) => {
    const [head, ...body] = rowsOf(table).map((row) => `${row.map(latexField).join(" & ")} \\\\`);
    const columns = [...table.rows[0].cells].map((cell) => (cell.classList.contains("n") ? "r" : "l")).join("");
    return `\\begin{tabular}{${columns}}\n\\hline\n${head}\n\\hline\n${body.join("\n")}\n\\hline\n\\end{tabular}\n`;
  };
  const save = (name, text, type) => {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const link = make("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };

  const sortBy = (table, column, header) => {
    const up = header.getAttribute("aria-sort") !== "ascending";
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row) => {
      const value = number(row.cells[column]);
      return { row, value, text: shown(row.cells[column]) };
    });
    // numbers first, in order; what is no number follows, by its letters
    keyed.sort((a, b) => {
      const [x, y] = [Number.isNaN(a.value), Number.isNaN(b.value)];
      if (x !== y) return x ? 1 : -1;
      const order = x ? a.text.localeCompare(b.text) : a.value - b.value;
      return up ? order : -order;
    });
    body.append(...keyed.map((one) => one.row));
  };
  const addFilters = (box, table, bar) => {
    const chosen = new Map();
    const apply = () => {
      for (const row of table.tBodies[0].rows) {
        row.hidden = [...chosen].some(([column, value]) => value !== "" && shown(row.cells[column]) !== value);
      }
    };
    [...table.rows[0].cells].forEach((header, column) => {
      if (header.dataset.filter === undefined) return;
      const values = [...new Set([...table.tBodies[0].rows].map((row) => shown(row.cells[column])))];
      if (values.length < 2) return;
      const title = header.textContent;
      const select = make("select", {}, make("option", { value: "", textContent: "all" }));
      for (const value of values) select.append(make("option", { value, textContent: value.slice(0, 60) }));
      select.dataset.column = title;
      select.addEventListener("change", () => { chosen.set(column, select.value); apply(); });
      bar.append(make("label", {}, title, select));
    });
  };
  for (const box of document.querySelectorAll(".table.tools")) {
    const table = box.querySelector("table");
    const bar = make("div", { className: "bar" });
    addFilters(box, table, bar);
    bar.append(make("span", { className: "grow" }));
    for (const [label, ending, write, type] of [["CSV", "csv", asCsv, "text/csv"], ["LaTeX", "tex", asLatex, "text/plain"]]) {
      const button = make("button", { type: "button", textContent: label });
      button.setAttribute("aria-label", `${label} of ${box.querySelector("h3").textContent}`);
      button.addEventListener("click", () => save(`${box.dataset.name}.${ending}`, write(table), type));
      bar.append(button);
    }
    const title = box.querySelector("h3");
    title.before(make("div", { className: "head" }));
    title.previousElementSibling.append(title, bar);
    if (box.dataset.sortable === undefined) continue;
    [...table.rows[0].cells].forEach((header, column) => {
      const button = make("button", { type: "button" }, ...header.childNodes);
      button.addEventListener("click", () => sortBy(table, column, header));
      header.append(button);
    });
  }

  // A mark that carries a title is read by pointer, finger and keyboard: one stop a chart, arrows from mark to mark.
  const tip = make("div", { className: "tip", hidden: true });
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  const NEAR = 18;
  const middle = (mark) => {
    const box = mark.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const hide = () => { tip.hidden = true; };
  const tell = (mark) => {
    const [x, y] = middle(mark);
    tip.textContent = mark.getAttribute("aria-label");
    tip.hidden = false;
    const most = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const above = y - tip.offsetHeight - 14;
    tip.style.left = `${Math.max(8, Math.min(x - tip.offsetWidth / 2, most)) + window.scrollX}px`;
    tip.style.top = `${(above < 4 ? y + 14 : above) + window.scrollY}px`;
  };
  const reads = (svg) => {
    const titles = [...svg.querySelectorAll("title")].filter((title) => title.parentNode !== svg);
    if (titles.length === 0) return;
    const marks = titles.map((title) => {
      const mark = title.parentNode;
      mark.setAttribute("role", "img");
      mark.setAttribute("aria-label", title.textContent);
      mark.setAttribute("tabindex", "-1");
      title.remove(); // else the browser would show it a second time
      return mark;
    });
    svg.setAttribute("role", "group");
    marks[0].setAttribute("tabindex", "0");
    const go = (from, to) => {
      from.setAttribute("tabindex", "-1");
      to.setAttribute("tabindex", "0");
      to.focus();
    };
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    svg.addEventListener("keydown", (event) => {
      const at = marks.indexOf(event.target);
      if (event.key === "Escape") hide();
      if (at < 0 || !(event.key in steps)) return;
      event.preventDefault();
      go(marks[at], marks[(at + steps[event.key] + marks.length) % marks.length]);
    });
    svg.addEventListener("focusin", (event) => { if (marks.includes(event.target)) tell(event.target); });
    svg.addEventListener("focusout", hide);
    svg.addEventListener("pointerleave", hide);
    const nearest = (event) => {
      const away = (mark) => {
        const [x, y] = middle(mark);
        return mark.contains(event.target) ? 0 : Math.hypot(x - event.clientX, y - event.clientY);
      };
      const [distance, mark] = marks.map((one) => [away(one), one]).reduce((a, b) => (b[0] < a[0] ? b : a));
      if (distance <= NEAR) tell(mark); else hide();
    };
    svg.addEventListener("pointermove", nearest);
    svg.addEventListener("pointerdown", nearest);
  };
  document.querySelectorAll("figure svg").forEach(reads);

  const slider = (box) => {
    const data = JSON.parse(document.getElementById(box.dataset.source).textContent);
    const choice = make("select");
    data.scores.forEach((score, i) => choice.append(make("option", { value: i, textContent: score.title })));
    const input = make("input", { type: "range", min: 0, step: 1 });
    const output = make("output");
    const body = make("tbody");
    const heads = ["attribute", "ruler", "passes", "DIR", "DPD", "status"];
    const row = make("tr");
    heads.forEach((text) => row.append(make("th", { scope: "col", textContent: text, className: /^D/.test(text) ? "n" : "" })));
    const table = make("table", {}, make("thead", {}, row), body);
    table.setAttribute("aria-label", "Pass rates at the chosen threshold");
    const withSpan = (value, span) => {
      const td = make("td", { className: "n" }, value);
      if (span) td.append(" ", make("small", { textContent: span }));
      return td;
    };
    const draw = () => {
      const score = data.scores[choice.value];
      const steps = Object.keys(score.at).sort((a, b) => a - b);
      const step = steps[input.value];
      output.textContent = `${score.sign} ${step}`;
      input.setAttribute("aria-valuetext", output.textContent);
      body.replaceChildren();
      for (const [grouping, rulers] of Object.entries(score.at[step])) {
        for (const [ruler, at] of Object.entries(rulers)) {
          const passes = at.groups.map(([name, k, n]) => `${name} ${k}/${n}`).join("; ");
          const tr = make("tr", { className: at.status === "saturated" ? "flat" : "" });
          tr.append(
            make("th", { scope: "row", textContent: grouping }), make("td", { textContent: ruler }),
            make("td", { textContent: passes }), withSpan(at.dir, at.dirSpan), withSpan(at.dpd, at.dpdSpan),
            make("td", { textContent: at.status }));
          body.append(tr);
        }
      }
    };
    const choose = () => {
      const score = data.scores[choice.value];
      const steps = Object.keys(score.at).sort((a, b) => a - b);
      input.max = steps.length - 1;
      const declared = steps.findIndex((step) => Number(step) === score.declared);
      input.value = declared < 0 ? 0 : declared;
      draw();
    };
    choice.addEventListener("change", choose);
    input.addEventListener("input", draw);
    const scroll = make("div", { className: "scroll", tabIndex: 0 }, table);
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "Pass rates at the chosen threshold");
    box.append(
      make("h3", { textContent: "Move the threshold" }),
      make("div", { className: "bar" }, make("label", {}, "score", choice), make("label", { className: "grow" }, "threshold", input), output),
      scroll);
    box.hidden = false;
    choose();
  };
  document.querySelectorAll(".sweep").forEach(slider);
})();
