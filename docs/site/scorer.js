// Scores of the site's search. Sphinx gives every page the same score that has all words of the query, or has one in a
// heading. Here each word in a heading counts, a word in the page's title counts more, and architecture decisions come last.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  score: ([page, , , , score]) => {
    const { docnames, titles, titleterms } = Search._index;
    const number = docnames.indexOf(page);
    const stemmer = new Stemmer();
    const words = (text) =>
      splitQuery(text.toLowerCase())
        .filter((word) => !stopwords.has(word))
        .map((word) => stemmer.stemWord(word));
    const asked = words(new URLSearchParams(window.location.search).get("q") ?? "");
    const title = words(titles[number]);
    const inHeadings = asked.filter((word) => [titleterms[word]].flat().includes(number));
    const inTitle = title.filter((word) => asked.includes(word));
    const last = page.startsWith("docs/adr/") || page === "CHANGELOG" ? 100 : 0;
    return score + 5 * inHeadings.length + (20 * inTitle.length) / title.length - last;
  },
};
