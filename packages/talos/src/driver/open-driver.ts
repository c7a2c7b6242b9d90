// A provider of cluster.yaml, opened.
import { readFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { GpveClient } from "@gpve/client/client.ts";
import type { NodeTransportOptions } from "@gpve/client/node-transport.ts";
import type { ClientClock, Transport } from "@gpve/client/transport.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { exec, MINIMAL_ENV, type Exec } from "@gpve/kit/exec.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { KeyPlaces } from "../secrets/age-keys.ts";
import { readReference, type SecretReference } from "../secrets/secret-reference.ts";
import type { Driver } from "./driver.ts";
import { PveDriver } from "./pve-driver.ts";
import { PveshCalls } from "./pvesh-calls.ts";
import { RestCalls } from "./rest-calls.ts";

export interface DriverDeps {
  readonly connect: (options: NodeTransportOptions) => Transport;
  readonly clock: ClientClock;
  /** Where paths of the file are relative to. */
  readonly folder: string;
  readonly keys: KeyPlaces;
}

export async function openDriver(provider: Cluster["providers"][number], deps: DriverDeps): Promise<Driver> {
  const { name, type } = provider;
  if (type === "qm") {
    const { GPVE_DATA: dataDir, PATH: path } = deps.keys.env;
    return new PveDriver(name, new PveshCalls(alsoIn(path), dataDir));
  }
  return new PveDriver(name, new RestCalls(await openClient(provider, deps)));
}

/** The API of a provider that is reached by it. */
export async function openClient(
  { name, endpoint, tokenRef, tls }: Cluster["providers"][number],
  deps: DriverDeps,
): Promise<GpveClient> {
  if (tls.insecure) {
    throw new AppError(
      "feature.unsupported",
      `tls.insecure of ${name} is not possible: pin the certificate instead`,
      {
        data: { finding: "platform-untrusted" },
      },
    );
  }
  const token = await readReference((tokenRef ?? {}) as SecretReference, deps.folder, deps.keys);
  const transport = deps.connect({
    url: endpoint ?? "",
    ...(tls.fingerprint === null ? {} : { fingerprint: tls.fingerprint }),
    ...(tls.caFile === null ? {} : { ca: caText(tls.caFile, deps.folder) }),
  });
  return new GpveClient({ transport, credentials: { kind: "token", token }, clock: deps.clock });
}

/** Commands of gpve may lie where the caller says; the system's own come first. */
function alsoIn(path: string | undefined): Exec {
  return (program, args, options) => {
    const env = options?.env ?? MINIMAL_ENV;
    const places = [env["PATH"], path].filter((each) => each !== undefined && each !== "");
    return exec(program, args, { ...options, env: { ...env, PATH: places.join(":") } });
  };
}

function caText(file: string, folder: string): string {
  try {
    return readFileSync(isAbsolute(file) ? file : join(folder, file), "utf8");
  } catch (cause) {
    throw new AppError("config.invalid", `the authority's certificate ${file} cannot be read`, {
      cause,
      data: { finding: "platform-untrusted" },
    });
  }
}
