// The OpenID issuer of a cluster: what its API server is told of it, and how it gets there. A control plane has a network of
// its own in which nobody answers for names: its node looks up the issuer's, and its wall lets it out to that alone.
import { lookup } from "node:dns/promises";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { isMachineAddress } from "@gpve/domain/vcluster/backing-store.ts";
import {
  authenticationConfig,
  isAddress,
  issuerPlace,
  type OidcIssuer,
  readsIssuers,
} from "@gpve/domain/vcluster/issuer.ts";
import type { GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { WallWayOut } from "./network/cluster-wall.ts";

/** Whom Debian and its like trust; upstream's programs look there. */
const TRUSTED = "/etc/ssl/certs/ca-certificates.crt";

export type NameLookup = (host: string) => Promise<readonly string[]>;

export const nodeLookup: NameLookup = async (host) =>
  (await lookup(host, { all: true, family: 4 })).map(({ address }) => address);

/** Throws why a cluster of this version cannot have it. */
export async function requireIssuer(issuer: OidcIssuer, version: string, find: NameLookup): Promise<void> {
  if (!readsIssuers(version))
    throw new AppError(
      "feature.unsupported",
      `spec.controlPlane.oidc: Kubernetes ${version} does not read it from a file; from 1.30 on it does`,
    );
  await addressesOf(issuer, find);
}

/** What the API server is told; and the ways out that it needs. */
export async function writeIssuer(
  place: string,
  { spec: { oidc }, version }: Pick<KeptCluster, "spec" | "version">,
  find: NameLookup = nodeLookup,
): Promise<readonly WallWayOut[]> {
  if (oidc === undefined) return [];
  const { config, hosts } = paths(place);
  const { host, port } = issuerPlace(oidc);
  mkdirSync(join(place, "issuer"), { recursive: true, mode: 0o755 });
  const known = readHosts(hosts);
  const addresses = await addressesOf(oidc, find).catch((err: unknown) => {
    // A cluster does not stay asleep because names cannot be looked up just now.
    ignore(err, "it is asked where it was last");
    return known;
  });
  write(config, authenticationConfig(oidc, version));
  write(hosts, ["127.0.0.1 localhost", ...addresses.map((address) => `${address} ${host}`), ""].join("\n"));
  return addresses.map((address) => ({ address, port }));
}

export function issuerConfig(place: string, { oidc }: KeptCluster["spec"]): string | undefined {
  return oidc === undefined ? undefined : paths(place).config;
}

/** What the API server sees beside it. */
export function issuerFiles(place: string, { oidc }: KeptCluster["spec"]): readonly GuestFile[] {
  if (oidc === undefined) return [];
  const hosts: GuestFile = { path: paths(place).hosts, as: "/etc/hosts", access: "ro", owned: true };
  const isTrusted = oidc.ca === undefined && existsSync(TRUSTED);
  return isTrusted ? [hosts, { path: TRUSTED, access: "ro" }] : [hosts];
}

async function addressesOf(issuer: OidcIssuer, find: NameLookup): Promise<readonly string[]> {
  const { host } = issuerPlace(issuer);
  if (isAddress(host)) return [host];
  const found = await find(host).catch((cause: unknown) => {
    throw new AppError(
      "request.invalid",
      `spec.controlPlane.oidc.issuerUrl: this node cannot look up '${host}': ${messageOf(cause)}`,
      { cause },
    );
  });
  const good = found.filter(isMachineAddress);
  if (good.length > 0) return good;
  throw new AppError(
    "request.invalid",
    `spec.controlPlane.oidc.issuerUrl: '${host}' is ${found.join(", ")}, which is not an address that machines reach an issuer by`,
  );
}

function readHosts(path: string): readonly string[] {
  const lines = (readTextFile(path) ?? "").split("\n").slice(1);
  return lines.map((line) => line.split(" ", 1)[0] ?? "").filter((address) => address !== "");
}

/** Its API server's own user reads them. */
function write(path: string, text: string): void {
  if (readTextFile(path) !== text) writeFileAtomic(path, text, 0o644);
}

function paths(place: string): { readonly config: string; readonly hosts: string } {
  const at = (name: string): string => join(place, "issuer", name);
  return { config: at("authentication.json"), hosts: at("hosts") };
}
