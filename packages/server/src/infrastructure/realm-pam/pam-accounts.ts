// The host's own accounts, out of process: Debian's pamtester runs the PAM stack and reads the password on its
// standard input. Its answer is the exit code.
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { HostAccounts, HostAuthentication } from "@gpve/domain/access/ports.ts";
import type { Exec } from "@gpve/kit/exec.ts";

const TIMEOUT_MS = 30_000;
/** PAM_MAX_RESP_SIZE; more would be cut off silently. */
const MAX_PASSWORD_BYTES = 511;
/** As useradd allows; also keeps the name from being read as an option. */
const HOST_USER = /^[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?$/;

export interface PamAccountsDeps {
  readonly exec: Exec;
  /** A file in /etc/pam.d. "other" includes Debian's common-auth and common-account, as PVE's own service does. */
  readonly service?: string;
}

export function createPamAccounts({ exec, service = "other" }: PamAccountsDeps): HostAccounts {
  return {
    authenticate: async (user, password, signal): Promise<HostAuthentication> => {
      const problem = unusable(user, password);
      if (problem !== undefined) return { ok: false, reason: problem };
      try {
        const { code, stderr } = await exec("pamtester", [service, user, "authenticate", "acct_mgmt"], {
          input: `${password}\n`,
          timeoutMs: TIMEOUT_MS,
          okCodes: [0, 1],
          ...given({ signal }),
        });
        if (code === 0) return { ok: true };
        return { ok: false, reason: `PAM: ${stderr.trim().split("\n").at(-1) ?? "refused"}` };
      } catch (err) {
        if (!isAppError(err, "feature.unsupported")) return { ok: false, reason: messageOf(err) };
        return { ok: false, reason: "pamtester is not installed: apt-get install pamtester" };
      }
    },
    setPassword: async (user, password, signal) => {
      const problem = unusable(user, password);
      if (problem !== undefined) throw new AppError("request.invalid", problem);
      await exec("chpasswd", [], {
        input: `${user}:${password}\n`,
        timeoutMs: TIMEOUT_MS,
        ...given({ signal }),
      });
    },
  };
}

function unusable(user: string, password: string): string | undefined {
  if (!HOST_USER.test(user)) return `'${user}' cannot be an account of this host`;
  if (/[\n\r\0]/.test(password)) return "a password of this host cannot hold line breaks";
  if (Buffer.byteLength(password) > MAX_PASSWORD_BYTES) return "the password is too long for PAM";
  return password === "" ? "no password" : undefined;
}
