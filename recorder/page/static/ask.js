// Questions to the server. An answer that asks for the token again leads to the page that signs in.

export class Refused extends Error {
  constructor(told) {
    super(told.error);
    this.told = told;
  }
}

export async function ask(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const answer = await fetch(`/api/${path}?${new URLSearchParams(given)}`, { signal });
  if (answer.status === 401) location.reload();
  const told = await answer.json();
  if (!answer.ok) throw new Refused(told);
  return told;
}
