// Signs in with the token in the address, which never reaches a log: browsers do not send what follows the #.

const said = document.getElementById("said");
const parts = new URLSearchParams(location.hash.slice(1));
const token = parts.get("token");

async function signIn() {
  parts.delete("token");
  // the token must not stay in the address, nor in the history
  history.replaceState(null, "", parts.size ? `#${parts}` : location.pathname);
  said.textContent = "Signing in …";
  const answer = await fetch("/signin", { method: "POST", body: new URLSearchParams({ token }) });
  if (answer.ok) location.reload();
  else said.textContent = "That is not the token of this page. A new start of the command has a new one.";
}

// a link from elsewhere comes without the cookie, a question of this page comes with it
async function enterWithCookie() {
  if ((await fetch("/api/filter")).ok) location.reload();
}

if (token) signIn();
else enterWithCookie();
