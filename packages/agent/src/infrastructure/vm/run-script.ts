import { given } from "@gpve/contracts/given.ts";
import type { Scripts } from "@gpve/domain/guest/scripts.ts";
import type { Exec } from "@gpve/kit/exec.ts";

/** A hook may copy things about. */
const TIMEOUT_MS = 600_000;
const EVERY_EXIT_CODE = Array.from({ length: 256 }, (_, code) => code);

export function hostScripts(exec: Exec): Scripts {
  return {
    run: async (path, args, { log, signal }) => {
      const { code } = await exec(path, args, {
        timeoutMs: TIMEOUT_MS,
        okCodes: EVERY_EXIT_CODE,
        onLine: log,
        ...given({ signal }),
      });
      return code;
    },
  };
}
