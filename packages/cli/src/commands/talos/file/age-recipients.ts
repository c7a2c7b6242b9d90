import type { Cli } from "../../../command.ts";
import { around } from "../around.ts";

/** For whom secrets are encrypted: the person's own keys. One is made when there is none. */
export async function ageRecipients(cli: Cli): Promise<readonly string[]> {
  const { createAgeKey, findAgeKeys } = await import("@gpve/talos/secrets/age-keys.ts");
  const { identities } = await findAgeKeys(around(cli));
  if (identities.length > 0) return identities.map(({ recipient }) => recipient);
  const made = await createAgeKey(around(cli), cli.io.clock.now());
  cli.out.note(`Made an age key in ${made.file}. Keep a copy of it: without it the secrets are lost.`);
  return [made.recipient];
}
