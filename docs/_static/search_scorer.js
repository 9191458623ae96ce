// Replaces Sphinx's scores of search results: pages of the API follow all others.
var Scorer = {
  score: ([page, , , , score]) => (page.startsWith("reference/api/") ? score - 1000 : score),

  // The values of Sphinx's searchtools.js.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
