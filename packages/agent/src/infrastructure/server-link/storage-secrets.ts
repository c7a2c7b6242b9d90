// Asks servers for what they keep of storages apart from their definitions. It is not kept here.
import { askServers, type AskedLinks } from "./ask-servers.ts";

const CALL_TIMEOUT_MS = 4_000;

export function storageSecrets(
  links: AskedLinks,
): (storage: string, name: string) => Promise<string | undefined> {
  return async (storage, name) => {
    const { value } = await askServers(links, `for the ${name} of storage '${storage}'`, (client) =>
      client.storageSecret({ storage, name }, { timeoutMs: CALL_TIMEOUT_MS }),
    );
    return value;
  };
}
