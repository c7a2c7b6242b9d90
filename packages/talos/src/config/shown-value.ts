// What of a configuration's values is shown: plans and reports are pasted and kept, so whatever may be a secret is not
// in them. Names of keys tell most; lists of NAME=VALUE, headers and environments have theirs elsewhere.

const SECRET =
  /(^|\.)(ca|crt|key|token|secret|identity|auth)$|secret|token|(?:key|pass|pwd|psk)$|passphrase|password|credential|accessKey|issuingCA|acceptedCAs/i;
/** Everything below these is somebody's own: of services, of containers, of whoever asks for manifests. */
const OWN = /(^|\.)(?:env|environment|\w*headers)\.(.+)$/i;
/** What environments of machines are for; of an address, what is within it is hidden below. */
const OF_PROXIES = /^(?:https?|no|all)_proxy$/i;
const TAINT = /\.registerWithTaints\.\d+\.key$/;
/** Files and manifests, in which anything may be. */
const CONTENT = /(^|\.)contents?$/i;
/** Arguments and variables: NAME=VALUE, --NAME=VALUE. */
const NAMED = /^-{0,2}([\w.-]+)=/;
/** As proxies have it in their address, and as those who are asked over an address get it. */
const IN_ADDRESS = /(?<=:\/\/)[^/@\s]+(?=@)|(?<=:\/\/[^\s?]*\?)\S+/g;
const MOST_CHARACTERS = 60;

/** "1 -> 2"; of secrets only that they differ. */
export function shownChange(path: string, from: string | undefined, to: string | undefined): string {
  if (isSecret(path) || isSecretText(from) || isSecretText(to)) return "(secret, changed)";
  if (CONTENT.test(path) || hasLines(from) || hasLines(to)) return "(changed)";
  return `${short(from)} -> ${short(to)}`;
}

function isSecret(path: string): boolean {
  if (TAINT.test(path)) return false;
  // An item of a list is what the list is.
  if (SECRET.test(path.replace(/(?:\.\d+)+$/, ""))) return true;
  const [, , name] = OWN.exec(path) ?? [];
  return name !== undefined && !OF_PROXIES.test(name);
}

function isSecretText(value: string | undefined): boolean {
  const [, name] = NAMED.exec(value ?? "") ?? [];
  return name !== undefined && SECRET.test(name);
}

const hasLines = (value: string | undefined): boolean => value?.trimEnd().includes("\n") === true;

function short(value: string | undefined): string {
  if (value === undefined) return "(unset)";
  const text = value.replaceAll(IN_ADDRESS, "…");
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
}
