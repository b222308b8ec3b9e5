// Asked of a page in the browser; the answer is a list of what is wrong in it, as texts.
(() => {
  const wrong = [];
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const background = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.push(rgba(getComputedStyle(each).backgroundColor));
    const paper = matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0, 1] : [255, 255, 255, 1];
    return layers.reverse().reduce((below, top) => over(top, below), paper);
  };
  // WCAG 2.2: relative luminance, contrast ratio.
  const luminance = (color) => {
    const [r, g, b] = color.slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const visible = (element) => element.checkVisibility() && element.getClientRects().length > 0;

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const words = texts.currentNode.data.trim();
    if (!words || !visible(element)) continue;
    const style = getComputedStyle(element);
    const ground = background(element);
    const color = element.closest("svg") ? style.fill : style.color;
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    const found = ratio(over(rgba(color), ground), ground);
    if (found < (large ? 3 : 4.5)) wrong.push(`contrast ${found.toFixed(2)} of "${words.slice(0, 40)}"`);
  }
  for (const sign of document.querySelectorAll("svg.sign")) {
    const ground = background(sign);
    if (visible(sign) && ratio(over(rgba(getComputedStyle(sign).color), ground), ground) < 3) wrong.push("contrast of a sign");
  }
  for (const [name, side] of [["tile", "borderTopColor"], ["bar", "backgroundColor"]])
    for (const element of document.querySelectorAll(`.${name}`)) {
      const ground = background(element.parentElement);
      if (name === "bar" && ratio(rgba(getComputedStyle(element)[side]), ground) < 3) wrong.push(`contrast of a ${name}`);
    }

  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) wrong.push(`the page is ${document.documentElement.scrollWidth} wide, not ${width}`);
  for (const element of document.querySelectorAll("body *")) {
    const box = element.getBoundingClientRect();
    const hidden = getComputedStyle(element).clipPath !== "none" || element.closest("thead, symbol, [width='0']");
    if (!hidden && box.width && box.right > width + 0.5) wrong.push(`${element.tagName} ${element.className} reaches ${box.right}`);
  }

  if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) wrong.push(`heading "${heading.textContent}" skips a level`);
    if (!heading.textContent.trim()) wrong.push("an empty heading");
    level = own;
  }
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption?.textContent.trim()) wrong.push("a table without a caption");
    if ([...table.querySelectorAll("th")].some((header) => !header.scope)) wrong.push("a table header without a scope");
    for (const row of table.tBodies[0].rows) if (row.cells[0].tagName !== "TH") wrong.push("a row without a header");
    if (!table.tHead) wrong.push("a table without column headers");
  }
  for (const picture of document.querySelectorAll("svg, img, canvas")) {
    const hidden = picture.getAttribute("aria-hidden") === "true" || picture.parentElement.closest("[role=img]");
    const named = picture.getAttribute("role") === "img" && picture.getAttribute("aria-label");
    if (!hidden && !named && !picture.getAttribute("alt")) wrong.push("a picture without a text alternative");
  }
  for (const use of document.querySelectorAll("use"))
    if (!document.querySelector(use.getAttribute("href"))) wrong.push(`no sign ${use.getAttribute("href")}`);
  for (const list of document.querySelectorAll("[aria-labelledby]"))
    if (!document.getElementById(list.getAttribute("aria-labelledby"))) wrong.push("a label that is not there");
  for (const tile of document.querySelectorAll(".tile, .dots"))
    if (!/verified|in use|shared|unhealthy|unknown/.test(tile.textContent + (tile.ariaLabel ?? ""))) wrong.push("a tile tells its state by colour alone");
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  if (new Set(ids).size !== ids.length) wrong.push("an id twice");
  if (!document.documentElement.lang) wrong.push("no language");
  if (!document.title) wrong.push("no title");
  if (document.querySelector("script, img, iframe, object, embed, link, form, input, base")) wrong.push("an element that does not belong here");
  for (const element of document.querySelectorAll("*"))
    for (const { name } of element.attributes) if (name.startsWith("on")) wrong.push(`a handler ${name}`);
  return [...new Set(wrong)];
})()
