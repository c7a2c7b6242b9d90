// The CA that an agent trusts at its join, as its configuration names it.
import { readFileSync } from "node:fs";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { readCertificate } from "@gpve/kit/pki/x509.ts";

export function readCaFile(file: string): string {
  const next =
    "copy pki/ca.crt of a server's data directory there, or leave the key out: the token names the CA by its fingerprint";
  let pem: string;
  try {
    pem = readFileSync(file, "utf8");
  } catch (cause) {
    throw new AppError("config.invalid", `cannot read server.caFile ${file}: ${messageOf(cause)}; ${next}`, {
      cause,
    });
  }
  try {
    readCertificate(pem);
  } catch (cause) {
    throw new AppError("config.invalid", `server.caFile ${file} holds no certificate in PEM; ${next}`, {
      cause,
    });
  }
  return pem;
}
