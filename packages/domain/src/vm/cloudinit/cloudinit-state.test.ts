import { describe, expect, it } from "vitest";
import {
  clearCloudinitState,
  cloudinitRows,
  isCloudinitKey,
  recordCloudinitChange,
} from "./cloudinit-state.ts";
import { emptyVmConfig, type VmConfig } from "../config/vm-config.ts";

const config: VmConfig = { ...emptyVmConfig, values: { ciuser: "joe", cores: "2", name: "web" } };

describe("what the cloud-init drive was made from", () => {
  it("keeps old values of changed and removed keys, and names new ones", () => {
    let state = recordCloudinitChange(config, "ciuser", "joe", "ann");
    state = recordCloudinitChange(state, "ciuser", "ann", "eve");
    state = recordCloudinitChange(state, "name", "web", undefined);
    state = recordCloudinitChange(state, "ipconfig0", undefined, "ip=dhcp");
    state = recordCloudinitChange(state, "ipconfig0", "ip=dhcp", "ip=manual");
    state = recordCloudinitChange(state, "net1", undefined, "virtio");
    state = recordCloudinitChange(state, "cores", "2", "4");
    expect(state.special).toEqual({ cloudinit: { ciuser: "joe", name: "web", added: "ipconfig0,net1" } });
  });

  it("is empty again when everything is as on the drive", () => {
    let state = recordCloudinitChange(config, "ciuser", "joe", "ann");
    state = recordCloudinitChange(state, "sshkeys", undefined, "k");
    state = recordCloudinitChange(state, "ciuser", "ann", "joe");
    state = recordCloudinitChange(state, "sshkeys", "k", undefined);
    expect(state.special).toEqual({});
    expect(recordCloudinitChange(config, "ciuser", "joe", "joe")).toBe(config);
    const changed = recordCloudinitChange(config, "ciuser", "joe", "ann");
    expect(
      clearCloudinitState({ ...changed, special: { ...changed.special, fleecing: {} } }).special,
    ).toEqual({
      fleecing: {},
    });
  });

  it("is shown beside the configuration, passwords masked", () => {
    const changed: VmConfig = {
      ...emptyVmConfig,
      values: { ciuser: "ann", cipassword: "x", name: "web", nameserver: "10.0.0.1" },
      special: { cloudinit: { ciuser: "joe", searchdomain: "lan", added: "nameserver" } },
    };
    expect(cloudinitRows(changed)).toEqual([
      { key: "cipassword", old: "**********", new: "**********" },
      { key: "ciuser", old: "joe", new: "ann" },
      { key: "nameserver", new: "10.0.0.1" },
      { key: "searchdomain", old: "lan" },
    ]);
    expect(cloudinitRows(emptyVmConfig)).toEqual([]);
    expect([isCloudinitKey("net31"), isCloudinitKey("added"), isCloudinitKey("cpu")]).toEqual([
      true,
      false,
      false,
    ]);
  });
});
