// What node methods need of the host they run on.

export interface DnsSettings {
  readonly search?: string;
  readonly dns1?: string;
  readonly dns2?: string;
  readonly dns3?: string;
}

export interface HostDns {
  read(): Promise<DnsSettings>;
  write(settings: DnsSettings): Promise<void>;
}

/** The file that names hosts without a name server. */
export interface HostNames {
  read(): Promise<string>;
  write(text: string): Promise<void>;
}

export interface HostTime {
  /** Name of the time zone, "Europe/Vienna". */
  timezone(): Promise<string>;
  /** Throws request.invalid for a zone the host does not know. */
  setTimezone(timezone: string): Promise<void>;
}

export interface HostPower {
  /** Throws, with the reason, where the host cannot do it. */
  run(command: "reboot" | "shutdown"): Promise<void>;
}

export interface HostReport {
  text(signal: AbortSignal): Promise<string>;
}
