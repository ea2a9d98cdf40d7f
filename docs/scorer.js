// Guides come before the reference of the code in the results of a search.
var Scorer = {
  score: (result) => {
    const [page, , , , score] = result;
    return page.startsWith("reference/api/") ? score - 20 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
