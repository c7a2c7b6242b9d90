import { isObject } from "@gpve/client/response-error.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import type { Cli, CommandSpec } from "../../command.ts";

export const version: CommandSpec = {
  name: "version",
  summary: "show the version of gpvectl and of the server",
  options: [{ flags: "--client", about: "do not ask the server" }],
  doing: () => "ask the server for its version",
  run: async (cli, input) => {
    const server = input.flag("client") ? undefined : await serverVersion(() => cli.client());
    cli.out.facts({ client: PRODUCT_VERSION, ...server }, [
      { header: "gpvectl", field: "client" },
      { header: "Server", field: "server" },
      { header: "Speaks PVE", field: "pve" },
    ]);
  },
};

async function serverVersion(open: Cli["client"]): Promise<object> {
  let client: Awaited<ReturnType<Cli["client"]>>;
  try {
    client = await open();
  } catch (err) {
    // Without a chosen server this is still a fair question.
    if (isAppError(err, "config.invalid")) return {};
    throw err;
  }
  const pve = await client.pve.get("/version");
  return { server: client.origin, pve: isObject(pve) ? pve["version"] : undefined };
}
