import { describe, expect, test } from '@jest/globals';
import { readSettings, SettingsError } from '../../../../packages/petstore/src/server/settings.ts';

describe("the pet store's settings", () => {
  test('have defaults', () => {
    expect(readSettings({ PETSTORE_DATABASE: '' })).toEqual({
      listen: { host: undefined, port: 6742 },
      databasePath: 'petstore.db',
      httpPort: 8080,
      requestIdsKeptHours: 24,
      tls: undefined,
      shutdownTimeoutSeconds: 20,
      env: 'local',
      logLevel: 'info',
    });
  });

  test.each([
    ['127.0.0.1:1', { host: '127.0.0.1', port: 1 }],
    ['[::]:6742', { host: '::', port: 6742 }],
    [':6742', { host: undefined, port: 6742 }],
    ['0.0.0.0:6742', { host: '0.0.0.0', port: 6742 }],
    ['localhost:6742', { host: 'localhost', port: 6742 }],
  ])('PETSTORE_LISTEN=%s', (text, expected) => {
    expect(readSettings({ PETSTORE_LISTEN: text }).listen).toEqual(expected);
  });

  test.each([
    ['PETSTORE_LISTEN', '6742', 'an address and a port, as :6742, 0.0.0.0:6742 or [::1]:6742'],
    ['PETSTORE_LISTEN', 'localhost:0', 'an address and a port, as :6742, 0.0.0.0:6742 or [::1]:6742'],
    ['PETSTORE_LISTEN', '::1:6742', 'an address and a port, as :6742, 0.0.0.0:6742 or [::1]:6742'],
    ['PETSTORE_HTTP_PORT', '65536', 'a whole number from 1 to 65535'],
    ['PETSTORE_REQUEST_IDS_KEPT_HOURS', '0', 'a number of hours above 0, 8760 at most'],
    ['LOG_LEVEL', 'loud', 'one of trace, debug, info, warn, error, fatal'],
  ])('%s=%s is refused', (variable, value, takes) => {
    const refused = () => readSettings({ [variable]: value });
    expect(refused).toThrow(SettingsError);
    expect(refused).toThrow(`${variable}: got ${JSON.stringify(value)}, takes ${takes}`);
  });

  test('a certificate without its key is refused', () => {
    expect(readSettings({ PETSTORE_TLS_CERT_FILE: 'c', PETSTORE_TLS_KEY_FILE: 'k' }).tls).toEqual({
      certFile: 'c',
      keyFile: 'k',
      clientCaFile: undefined,
    });
    expect(() => readSettings({ PETSTORE_TLS_CERT_FILE: 'c' })).toThrow('PETSTORE_TLS_KEY_FILE: is missing');
    expect(() => readSettings({ PETSTORE_TLS_KEY_FILE: 'k' })).toThrow('PETSTORE_TLS_CERT_FILE: is missing');
  });

  test('a client authority without a certificate is refused, because the store would serve everybody in plain text', () => {
    expect(() => readSettings({ PETSTORE_TLS_CLIENT_CA_FILE: 'a' })).toThrow(
      'PETSTORE_TLS_CERT_FILE: is missing; PETSTORE_TLS_CLIENT_CA_FILE needs it',
    );
  });
});
