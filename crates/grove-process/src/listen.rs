//! The addresses that a service listens on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context;
use tokio::net::TcpListener;

/// Listens on the address. `[::]` means all addresses of both families, and those of IPv4 on a node without IPv6.
///
/// # Errors
/// If the address is in use, or the node does not have it.
pub async fn bind(address: SocketAddr, purpose: &str) -> anyhow::Result<TcpListener> {
    let bound = match TcpListener::bind(address).await {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && !is_in_use(&error) => {
            TcpListener::bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), address.port())).await
        }
        bound => bound,
    };
    let listener = bound.with_context(|| format!("could not listen on {address} for {purpose}"))?;
    tracing::info!(%address, "serving {purpose}");
    Ok(listener)
}

fn is_in_use(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::AddrInUse
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn all_addresses_include_those_of_ipv4() {
        let listener = bind((Ipv6Addr::UNSPECIFIED, 0).into(), "tests").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let error = bind((Ipv6Addr::UNSPECIFIED, port).into(), "tests").await.unwrap_err();
        assert_eq!(error.to_string(), format!("could not listen on [::]:{port} for tests"));
    }
}
