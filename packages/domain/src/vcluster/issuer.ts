// Who else may log in to a virtual cluster: whom an OpenID issuer vouches for. The API server asks the issuer for its keys by
// itself and judges tokens by them; what is in a token's claims never reaches names that are the cluster's own.
import { given } from "@gpve/contracts/given.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { isMachineAddress } from "./backing-store.ts";
import { readCidr } from "./cidr.ts";
import { invalidSpec } from "./invalid-spec.ts";

export interface OidcIssuer {
  /** As it stands in tokens. */
  readonly issuerUrl: string;
  /** For whom tokens must have been made out. */
  readonly clientId: string;
  readonly usernameClaim: string;
  readonly groupsClaim?: string;
  /** Who signed the issuer's certificate, PEM; absent: somebody whom its node trusts. */
  readonly ca?: string;
}

const FIELD = "controlPlane.oidc";
/** Before names and groups of tokens: none of them is `system:masters`, or somebody that a kubeconfig names. */
export const ISSUED_PREFIX = "oidc:";
const MOST_CA_BYTES = 64 * 1024;

export function readIssuer(said: unknown): OidcIssuer | undefined {
  if (said === undefined) return undefined;
  if (typeof said !== "object" || said === null || Array.isArray(said))
    throw invalidSpec(FIELD, "must say issuerUrl and clientId");
  const fields = said as Fields;
  return {
    issuerUrl: requireUrl(fields["issuerUrl"]),
    clientId: word("clientId", fields["clientId"]),
    usernameClaim: fields["usernameClaim"] === undefined ? "sub" : claim(fields, "usernameClaim"),
    ...(fields["groupsClaim"] === undefined ? {} : { groupsClaim: claim(fields, "groupsClaim") }),
    ...given({ ca: certificates(fields["ca"]) }),
  };
}

/** Where the issuer is asked. */
export function issuerPlace({ issuerUrl }: OidcIssuer): { readonly host: string; readonly port: number } {
  const { hostname, port } = new URL(issuerUrl);
  return { host: hostname, port: port === "" ? 443 : Number(port) };
}

export function isAddress(host: string): boolean {
  return readCidr(`${host}/32`) !== undefined;
}

/** From which version on API servers read it from a file. */
export function readsIssuers(version: string): boolean {
  return minorOf(version) >= 30;
}

/** Upstream's AuthenticationConfiguration. */
export function authenticationConfig(issuer: OidcIssuer, version: string): string {
  const mapped = (name: string): Fields => ({ claim: name, prefix: ISSUED_PREFIX });
  return JSON.stringify({
    apiVersion: `apiserver.config.k8s.io/${minorOf(version) >= 34 ? "v1" : "v1beta1"}`,
    kind: "AuthenticationConfiguration",
    jwt: [
      {
        issuer: {
          url: issuer.issuerUrl,
          audiences: [issuer.clientId],
          ...given({ certificateAuthority: issuer.ca }),
        },
        claimMappings: {
          username: mapped(issuer.usernameClaim),
          ...(issuer.groupsClaim === undefined ? {} : { groups: mapped(issuer.groupsClaim) }),
        },
      },
    ],
  });
}

function minorOf(version: string): number {
  return Number(/^\d+\.(\d+)/.exec(version)?.[1] ?? 0);
}

function requireUrl(value: unknown): string {
  const refuse = (why: string): never => {
    throw invalidSpec(`${FIELD}.issuerUrl`, why);
  };
  if (typeof value !== "string" || !URL.canParse(value))
    return refuse("must be the issuer's URL, https://login.example.com, as it stands in tokens");
  const { protocol, hostname, username, password, search, hash } = new URL(value);
  if (protocol !== "https:") return refuse(`'${value}' is not https, which it must be`);
  if (username !== "" || password !== "" || search !== "" || hash !== "" || value.length > 500)
    return refuse("must be a URL without user, query and fragment");
  if (hostname.startsWith("[")) return refuse("must be a name or an IPv4 address");
  if (isAddress(hostname) && !isMachineAddress(hostname))
    return refuse(`'${hostname}' is not an address that machines reach an issuer by: name one that is`);
  return value;
}

function word(name: string, value: unknown): string {
  if (typeof value === "string" && value !== "" && value.length <= 300) return value;
  throw invalidSpec(`${FIELD}.${name}`, "must be there");
}

function claim(fields: Fields, name: "usernameClaim" | "groupsClaim"): string {
  const value = fields[name];
  if (typeof value === "string" && /^[\w.:/-]{1,100}$/.test(value)) return value;
  throw invalidSpec(`${FIELD}.${name}`, "must be the name of a claim, such as sub, email or groups");
}

function certificates(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  const isPem =
    typeof value === "string" &&
    value.length <= MOST_CA_BYTES &&
    value.trim().startsWith("-----BEGIN CERTIFICATE-----");
  if (!isPem) throw invalidSpec(`${FIELD}.ca`, "must be certificates, as PEM");
  return `${value.trim()}\n`;
}
