// Questions to the server, with the token of this session and the name of this window.

import { remembered } from "./dom.js";

const address = new URL(location.href);
if (address.searchParams.has("token")) sessionStorage.setItem("token", address.searchParams.get("token"));
export const token = sessionStorage.getItem("token") ?? "";

export const client = remembered("client", () => {
  // crypto.randomUUID does not exist on pages that another computer serves without encryption.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
});

export class Refused extends Error {}

export async function ask(path, body) {
  const options = { headers: { "X-Label-Token": token }, cache: "no-store" };
  if (body) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let reply;
  try {
    reply = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer. If it has stopped, start transduce label again.");
  }
  if (reply.ok || reply.status === 409) return reply; // 409: answers that another window was faster than
  if (reply.status === 401 || reply.status === 403) {
    throw new Error("The server does not accept this page. Open the address that transduce label printed last.");
  }
  const known = await reply.json().catch(() => ({}));
  const words = `The server answers: ${known.error ?? `error ${reply.status}`}.`;
  throw reply.status >= 500 ? new Error(words) : new Refused(words);
}

export const asked = async (path, body) => (await ask(path, body)).json();
